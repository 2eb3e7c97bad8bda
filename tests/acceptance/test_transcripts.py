"""Transcripts of runs that were forked, rewound and stopped, have hundreds of branches, or say what breaks other people's formats."""

import json
from collections import Counter
from typing import Any

import pytest

from holdfast import Holdfast, Recorded, Response
from tests.acceptance.scenes import opened, refused, scene

TALK = """
local first = alc.llm('one')
local more = alc.llm_batch({'x ' .. first, 'y ' .. first})
return {first, more[1], more[2], alc.llm('end')}
"""
FORKS = """
local first = alc.llm('one')
local forked = alc.fork({function() return alc.llm('a ' .. first) end, function() return alc.llm('b ' .. first) end}, {})
return {first, forked[1].result, forked[2].result, alc.llm('end')}
"""


async def told(hf: Holdfast, session: Any) -> list[tuple[str, str, Any]]:
    """What was asked under which id, and answered."""
    found = (await hf.transcripts.get(session, max_chars=0))["transcript"]
    return [(one["query_id"], one["prompt"], one["response"]) for one in found]


# ---- where a run comes from --------------------------------------------------------------------------------------------------------


@scene
async def test_a_forked_run_has_what_it_was_told_before(everywhere: str) -> None:
    async with opened(everywhere) as hf:
        source = (await hf.strategies.run(TALK))["session_id"]
        await hf.strategies.resume(source, [Response("A")])
        await hf.strategies.resume(source, [Response("Y", "q-3")])  # of two that are open, the second
        before = [("q-1", "one", "A"), ("q-3", "y A", "Y")]
        fork = (await hf.strategies.fork(source))["session_id"]
        assert sorted(await told(hf, fork)) == sorted([*before, ("q-2", "x A", None)])
        await hf.strategies.resume(source, [Response("X", "q-2")])
        await hf.strategies.resume(fork, [Response("other", "q-2")])
        done = await hf.strategies.resume(fork, [Response("end")])
        assert sorted(await told(hf, fork)) == sorted([*before, ("q-2", "x A", "other"), ("q-4", "end", "end")])
        assert done["stats"]["auto"]["llm_calls"] == 4
        entries = (await hf.transcripts.get(fork))["transcript"]
        assert (await hf.strategies.run(TALK, answer=Recorded(entries)))["result"] == done["result"]  # so it is a recording too
        of_fork = (await hf.strategies.fork(fork, 2))["session_id"]  # before its own last answer
        assert sorted(await told(hf, of_fork)) == sorted([*before, ("q-2", "x A", "other"), ("q-4", "end", None)])
        await hf.sessions.delete(source)
        assert await told(hf, of_fork) == [("q-2", "x A", "other"), ("q-4", "end", None)]  # it has gone with its session


@scene
async def test_a_rewound_run_has_what_led_to_where_it_is(address: str) -> None:
    async with opened(address) as hf:
        session = (await hf.strategies.run(FORKS))["session_id"]
        asked = await hf.strategies.resume(session, [Response("A")])
        await hf.strategies.resume(session, [Response("said", query["id"]) for query in asked["queries"]])
        first = [("q-1", "one", "A"), ("f-2-0-3", "a A", "said"), ("f-2-1-3", "b A", "said"), ("q-3", "end", None)]
        assert await told(hf, session) == first
        await hf.sessions.rewind(session, 3)  # after the fork: asked once more
        assert await told(hf, session) == [*first[:3], ("q-4", "end", None)]
        await hf.sessions.rewind(session, 2)  # in the middle of the fork: forked once more
        again = await hf.strategies.outcome(session)
        assert await told(hf, session) == [first[0], *((query["id"], query["prompt"], None) for query in again["queries"])]
        await hf.strategies.resume(session, [Response("B", query["id"]) for query in again["queries"]])
        assert (await hf.strategies.resume(session, [Response("E")]))["result"] == ["A", "B", "B", "E"]
        assert [response for _, _, response in await told(hf, session)] == ["A", "B", "B", "E"]
        await hf.sessions.rewind(session, 1)
        assert [prompt for _, prompt, _ in await told(hf, session)] == ["one"]


# ---- how much there is -------------------------------------------------------------------------------------------------------------


def test_what_a_transcript_reads_grows_with_the_branches_and_no_faster(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _grows(address, monkeypatch)


@scene
async def _grows(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(address) as hf:
        code = "local all = {} for n = 1, ctx.n do all[n] = function() return n end end return #alc.fork(all, {})"
        store, reads = hf.strategies._runtime.store, Counter[int]()
        sessions = {n: (await hf.strategies.run(code, ctx={"n": n}))["session_id"] for n in (4, 24)}
        for n, session in sessions.items():
            with monkeypatch.context() as patch:
                for name in ("get_session", "get_execution", "list_executions", "list_queries"):
                    patch.setattr(store, name, _counted(getattr(store, name), reads, n))
                await hf.transcripts.get(session)
        assert reads[24] <= 6 * reads[4]


def _counted(read: Any, reads: Counter[int], n: int) -> Any:
    def counted(*args: Any, **options: Any) -> Any:
        reads[n] += 1
        return read(*args, **options)

    return counted


# ---- what is written ---------------------------------------------------------------------------------------------------------------


@scene
async def test_no_text_breaks_an_export(address: str) -> None:
    async with opened(address) as hf:
        nasty = "``` " + "`" * 60_000 + "\n# no heading\0\u2028\x85\ud800\n~~~"
        session = (
            await hf.strategies.run("return alc.llm(ctx.text)", ctx={"text": "\u2028" + nasty[:-5], "task": "<b>[x](y)`"})
        )["session_id"]
        await hf.transcripts.note(session, nasty, title="*bold*\n# two")
        await hf.strategies.resume(session, [Response(nasty[:-5], model="<i>\u2028")])
        text = await hf.transcripts.export(session)
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line["type"] for line in lines] == ["run", "exchange", "note", "end"]
        assert (lines[1]["prompt"], lines[2]["content"]) == ("\u2028" + nasty[:-5], nasty)
        text = await hf.transcripts.export(session, "markdown")
        fence = "`" * 60_001
        assert text.startswith("# strategy: \\<b>\\[x](y)\\`\n")
        assert f"## Note: \\*bold\\* # two\n\n{fence}\n{nasty}\n{fence}\n" in text
        assert f"Answer (\\<i>):\n\n{fence}\n" in text


@scene
async def test_what_has_no_answer_and_no_end_is_not_said_to_have_one(address: str) -> None:
    async with opened(address) as hf:
        session = (await hf.strategies.run("return alc.llm({{role = 'user', content = 'hi'}}, {model = 'small'})"))[
            "session_id"
        ]
        text = await hf.transcripts.export(session, "markdown")
        assert text.endswith("## q-1 (llm)\n\n```\nhi\n```\n\nNot answered yet.\n")
        assert "ended_at" not in text
        await hf.strategies.cancel(session)
        text = await hf.transcripts.export(session, "markdown")
        assert "Not answered any more.\n\n## Error\n\n```\nthe execution was cancelled\n```\n" in text
        (exchange,) = (await hf.transcripts.get(session))["transcript"]
        assert exchange["options"] == {"messages": [{"role": "user", "content": "hi"}], "model": "small"}
        with refused("ANSWER_CONFLICT"):
            await hf.strategies.resume(session, [Response("late", "q-1")])
        done = await hf.strategies.run("return {1, nil, 3}")  # as no JSON has it
        whole = await hf.transcripts.get(done["session_id"])
        assert (whole["result"], whole["result_preview"]) == (None, done["result_preview"])
        for form in ("jsonl", "markdown"):
            assert done["result_preview"] in await hf.transcripts.export(done["session_id"], form)

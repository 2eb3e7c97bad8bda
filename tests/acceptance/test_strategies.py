"""Runs of strategies by the library: who answers, what is written down, and what becomes of nonsense."""

import asyncio
import json
import threading
from typing import Any

import pytest

from holdfast import Capability, Function, Holdfast, HoldfastError, Limits, Recorded, Response, Tool
from holdfast.control.answering import text_of
from holdfast.domain import SessionBusy
from holdfast.runtime import branches
from tests.acceptance.scenes import dies_before_it_replies, eventually, opened, refused, scene, template, until

TALK = """
local first = alc.llm('Name a city.')
local more = alc.parallel({'north', 'south'}, function(side) return 'What is ' .. side .. ' of ' .. first .. '?' end)
return {city = first, north = more[1], south = more[2]}
"""
RECORDING = [
    {"prompt": "Name a city.", "response": "Lima"},
    {"prompt": "What is north of Lima?", "response": "Trujillo"},
    {"prompt": "What is south of Lima?", "response": "Ica"},
]


# ---- who answers -------------------------------------------------------------------------------------------------------------------


@scene
async def test_a_function_answers(address: str) -> None:
    at_once = 0

    async def model(asked: Any) -> Any:
        nonlocal at_once
        at_once += 1
        await asyncio.sleep(0)
        return f"{text_of(asked)} ({at_once})"  # both questions of a round are asked before one is answered

    async with opened(address) as hf:
        said = await hf.strategies.run(TALK, answer=model)
        assert said["status"] == "completed"
        assert said["result"]["north"].endswith("(3)")
        assert said["result"]["south"].endswith("(3)")


@scene
async def test_a_recording_answers_and_an_unknown_prompt_is_an_error(address: str) -> None:
    async with opened(address) as hf:
        said = await hf.strategies.run(TALK, answer=Recorded(RECORDING))
        assert said["result"] == {"city": "Lima", "north": "Trujillo", "south": "Ica"}
        recorded = (await hf.transcripts.get(said["session_id"]))["transcript"]
        again = await hf.strategies.run(TALK, answer=Recorded(recorded))  # a transcript is a recording
        assert again["result"] == said["result"]
        with refused("PROMPT_UNKNOWN") as unknown:
            await hf.strategies.run(TALK, answer=Recorded(RECORDING[:2]))
        assert "south of Lima" in str(unknown.error)
        waiting = (await hf.strategies.status(pending_filter="full"))["sessions"]
        assert [query["prompt"] for query in waiting[0]["pending"]] == ["What is north of Lima?", "What is south of Lima?"]
        open_ones = [RECORDING[0] | {"response": None, "state": state} for state in ("open", "cancelled")]
        with refused("PROMPT_UNKNOWN"):  # nobody had answered that
            await hf.strategies.run(TALK, answer=Recorded(open_ones))
        for wrong in ([{"prompt": 1, "response": 2}], [{"response": 2}], ["x"]):
            with refused("VALIDATION_ERROR"):
                Recorded(wrong)  # type: ignore[list-item]


@scene
async def test_a_function_that_fails_leaves_the_run_where_it_is(address: str) -> None:
    async def broken(asked: Any) -> Any:
        raise OSError("no network")

    async def wary(asked: Any) -> Any:
        return Response(error="no model today", usage={"completion_tokens": 7})

    async with opened(address) as hf:
        with pytest.raises(OSError, match="no network"):
            await hf.strategies.run(TALK, answer=broken)
        session = (await hf.strategies.status())["sessions"][0]["session_id"]
        said = await hf.strategies.drive(session, Recorded(RECORDING))
        assert said["status"] == "completed"
        said = await hf.strategies.run("return {pcall(alc.llm, 'x')}", answer=wary)
        assert said["result"][0] is False
        assert "no model today" in json.dumps(said["result"])
        assert said["stats"]["auto"]["response_tokens"] == {"tokens": 7, "source": "provided"}


@scene
async def test_one_that_fails_gives_up_the_others_of_its_round(address: str) -> None:
    given_up = []

    async def broken(asked: Any) -> Any:
        if "north" in text_of(asked):
            raise OSError("no network")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            given_up.append(asked.id)
            raise

    async with opened(address) as hf:
        session = (await hf.strategies.run(TALK))["session_id"]
        await hf.strategies.resume(session, [Response("Lima")])
        with pytest.raises(OSError, match="no network"):
            await hf.strategies.drive(session, broken)
        await until(lambda: given_up == ["q-3"])


@scene
async def test_what_the_clock_or_somebody_else_answers_meanwhile_is_let_go(address: str) -> None:
    async with opened(address) as hf:

        async def late(asked: Any) -> Any:
            if asked.id == "q-1":
                await eventually(lambda: _is_closed(hf, asked))
            return f"{asked.id}, late"

        said = await hf.strategies.run("return {alc.llm('a', {timeout_ms = 1, default = 'none'}), alc.llm('b')}", answer=late)
        assert said["result"] == ["none", "q-2, late"]


async def _is_closed(hf: Holdfast, asked: Any) -> bool:
    return bool((await hf.queries.get(asked.query.session_id, asked.id)).state != "open")


@scene
async def test_people_tools_and_the_clock_are_asked_in_ways_of_their_own(address: str) -> None:
    async def shout(args: Any) -> str:
        return str(args["text"]).upper()

    async with opened(address, tools=[Tool("shout", shout)]) as hf:
        await hf.templates.create("t", language="lua", capabilities=[Capability("tool", "shout")])
        said = await hf.strategies.run(
            "alc.sleep(5) local loud = alc.tool('shout', {text = 'hi'}) if alc.approve('Really?') then return loud .. alc.ask('Who?') end",
            template="t",
        )
        assert (said["status"], said["kind"], said["prompt"]) == ("needs_response", "approve", "Really?")
        with refused("VALIDATION_ERROR"):
            await hf.strategies.resume(said["session_id"], [Response("perhaps")])
        said = await hf.strategies.resume(said["session_id"], [Response(True)])
        assert (said["kind"], said["prompt"]) == ("ask", "Who?")
        assert (await hf.strategies.resume(said["session_id"], [Response("Ada")]))["result"] == "HIAda"
        said = await hf.strategies.run("alc.sleep(600000) return 1", wait_s=0)
        assert said["status"] == "waiting"
        assert said["wake_at"] > 0


# ---- the same again ----------------------------------------------------------------------------------------------------------------


@scene
async def test_a_lost_call_is_repeated_and_happens_once(address: str) -> None:
    async with opened(address) as hf:
        first = await hf.strategies.run(TALK, idempotency_key="k-1")
        assert await hf.strategies.run(TALK, idempotency_key="k-1") == first
        with refused("IDEMPOTENCY_CONFLICT"):
            await hf.strategies.run("return 1", idempotency_key="k-1")
        session = first["session_id"]
        second = await hf.strategies.resume(session, [Response("Lima", "q-1")], idempotency_key="k-2")
        assert await hf.strategies.resume(session, [Response("Lima", "q-1")], idempotency_key="k-2") == second
        assert await hf.strategies.resume(session, [Response("Lima", "q-1")]) == second  # also without one
        assert (await hf.strategies.status(session))["metrics"]["llm_calls"] == 3
        fork = await hf.strategies.fork(session, idempotency_key="k-3")
        assert (await hf.strategies.fork(session, idempotency_key="k-3"))["session_id"] == fork["session_id"]
        assert fork["session_id"] != session
        assert fork["queries"] == second["queries"]
        await hf.strategies.cancel(session)
        assert (await hf.strategies.fork(session, idempotency_key="k-3"))["session_id"] == fork["session_id"]
        note = await hf.transcripts.note(session, "seen", idempotency_key="k-4")
        assert await hf.transcripts.note(session, "seen", idempotency_key="k-4") == note
        assert note["notes_count"] == 1


@scene
async def test_a_lost_answer_that_names_no_query_is_not_given_to_the_next(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(address) as hf:
        asked = await hf.strategies.run(
            "return {alc.llm('a'), alc.fork({function() return {alc.llm('b'), alc.llm('c')} end}, {})}"
        )
        session = asked["session_id"]
        for key, prompt in (("k", "b"), ("k", "c")):  # what the run asks, and what its branch does
            with monkeypatch.context() as patch, refused("STORE_UNAVAILABLE"):
                dies_before_it_replies(patch, hf._runtime.store)
                await hf.strategies.resume(session, [Response("said once")], idempotency_key=key)
            again = await hf.strategies.resume(session, [Response("said once")], idempotency_key=key)
            assert again["prompt"] == prompt
            hf._runtime.store.drop_replies(1 << 53)


@scene
async def test_an_answer_that_comes_while_the_script_runs_is_not_given_to_what_it_asks_next(address: str) -> None:
    held, second_came = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        assert second_came.wait(30)

    async with opened(address, functions=[Function("host.hold", hold)]) as hf:
        await hf.templates.create("t", language="lua", capabilities=[Capability("function", "host.hold")])
        code = "local a = alc.llm('a') alc.call('host.hold') return {a, alc.llm('b')}"
        session = (await hf.strategies.run(code, template="t"))["session_id"]
        for answer in (
            lambda said: hf.strategies.resume(session, [Response(said)]),
            lambda said: hf.queries.answer(session, said),
        ):
            first = asyncio.ensure_future(hf.strategies.resume(session, [Response("one host")]))
            await until(held.is_set)
            late = asyncio.ensure_future(answer("another"))  # to the same question
            await until(lambda late=late: late.done() or hf._runtime.figures["waiting"])
            second_came.set()
            assert (await first)["prompt"] == "b"
            with pytest.raises(HoldfastError, match=r"already responded|no pending"):
                await late
            assert (await hf.strategies.outcome(session))["prompt"] == "b"
            await hf.sessions.rewind(session, 1)
            held.clear()
            second_came.clear()


@scene
async def test_whoever_repeats_an_answer_of_a_branch_hears_what_is_asked_now(address: str) -> None:
    async with opened(address) as hf:
        branch = "function() return alc.llm('b') end"
        asked = await hf.strategies.run(f"alc.fork({{{branch}, {branch}}}, {{}}) return alc.llm('after')")
        one, other = (Response("x", query["id"]) for query in asked["queries"])
        session = asked["session_id"]
        assert await hf.strategies.resume(session, [one]) == {"status": "accepted", "session_id": session, "remaining": 1}
        assert (await hf.strategies.resume(session, [one]))["query_id"] == other.query_id
        after = await hf.strategies.resume(session, [other])
        assert (after["status"], after["prompt"]) == ("needs_response", "after")
        assert await hf.strategies.resume(session, [other]) == after


# ---- transcripts -------------------------------------------------------------------------------------------------------------------


@scene
async def test_transcripts_are_listed_noted_counted_and_exported(everywhere: str) -> None:
    async with opened(everywhere) as hf:
        for city in ("Lima", "Oslo"):
            entries = json.loads(json.dumps(RECORDING).replace("Lima", city))
            said = await hf.strategies.run(TALK, name="talk", ctx={"task": f"about {city}"}, answer=Recorded(entries))
        await hf.strategies.run("return alc.llm('open ' .. ('x'):rep(200))", name="other")
        listed = (await hf.transcripts.list())["transcripts"]
        assert [(entry["strategy"], entry["status"]) for entry in listed] == [
            ("other", "paused"),
            ("talk", "ok"),
            ("talk", "ok"),
        ]
        assert listed[0]["task_hint"] == "open " + "x" * 95 + "..."
        assert listed[1]["task_hint"] == "about Oslo"
        assert (await hf.transcripts.list(strategy="other"))["transcripts"] == listed[:1]
        assert (await hf.transcripts.list(strategy="talk", limit=1))["transcripts"] == listed[1:2]
        assert await hf.transcripts.list(strategy="tal") == {"transcripts": [], "next": None}
        page = await hf.transcripts.list(limit=1)
        assert (await hf.transcripts.list(limit=5, after=page["next"]))["transcripts"] == listed[1:]

        session = said["session_id"]
        assert await hf.transcripts.note(session, "A fine run.") == {"session_id": session, "notes_count": 1}
        await hf.transcripts.note(session, "``` not the end", title="Second")
        whole = await hf.transcripts.get(session)
        assert [(note["title"], note["content"]) for note in whole["notes"]] == [
            (None, "A fine run."),
            ("Second", "``` not the end"),
        ]
        lines = [json.loads(line) for line in (await hf.transcripts.export(session)).splitlines()]
        assert [line["type"] for line in lines] == ["run", "exchange", "exchange", "exchange", "note", "note", "end"]
        assert lines[-1]["result"] == said["result"]
        text = await hf.transcripts.export(session, "markdown")
        assert text.startswith("# talk: about Oslo\n")
        assert "````\n``` not the end\n````" in text
        cut = await hf.transcripts.get(session, max_chars=300)
        assert (cut["truncated"], cut["original_rounds"], cut["returned_rounds"]) == (True, 3, 1)
        with refused("VALIDATION_ERROR"):
            await hf.transcripts.export(session, "pdf")

        stats = await hf.transcripts.stats()
        assert (stats["total_sessions"], stats["strategies"].keys()) == (2, {"talk"})  # the other has not ended
        talk = stats["strategies"]["talk"]
        assert (talk["count"], talk["avg_llm_calls"], talk["avg_rounds"]) == (2, 3, 2)
        assert talk["total_tokens"] == talk["total_prompt_tokens"] + talk["total_response_tokens"] > 0
        assert (await hf.transcripts.stats(strategy="other"))["strategies"] == {}
        await hf.strategies.cancel(listed[0]["session_id"])
        assert (await hf.transcripts.stats(strategy="other"))["strategies"]["other"]["count"] == 1
        assert (await hf.transcripts.stats(days=1))["total_sessions"] == 3


# ---- nonsense ----------------------------------------------------------------------------------------------------------------------


@scene
async def test_answers_that_make_no_sense_change_nothing(address: str) -> None:
    async with opened(address) as hf:
        asked = await hf.strategies.run(TALK)
        session = asked["session_id"]

        async def refuses(code: str, *responses: Any) -> None:
            with refused(code):
                await hf.strategies.resume(session, list(responses))

        await refuses("QUERY_NOT_FOUND", Response("x", "q-9"))
        await refuses("VALIDATION_ERROR", Response("x", "nonsense"))
        await refuses("VALIDATION_ERROR", Response("x", "f-1"))
        for wrong in ("f-1-0-2", "f-9-9-9-9-9"):  # there is no such fork
            await refuses("QUERY_NOT_FOUND", Response("x", wrong))
        await refuses("VALIDATION_ERROR", Response("x", "q-1"), Response("y", "q-1"))
        await refuses("VALIDATION_ERROR", Response(object(), "q-1"))
        await refuses("VALIDATION_ERROR", Response("x", "q-1", usage={"prompt_tokens": -1}))
        await refuses("VALIDATION_ERROR", Response("x", "q-1", model=7))  # type: ignore[arg-type]
        await refuses("VALIDATION_ERROR", "x")
        assert (await hf.strategies.outcome(session)) == asked
        after = await hf.strategies.resume(session, [Response("Lima", "q-1")])
        await refuses("ANSWER_CONFLICT", Response("Oslo", "q-1"))  # late, and another
        await refuses("ANSWER_AMBIGUOUS", Response("x"))
        assert await hf.strategies.outcome(session) == after
        huge = await hf.strategies.run("return #alc.llm('much')")
        said = await hf.strategies.resume(huge["session_id"], [Response("x" * 10_000_000)])
        assert said["status"] in ("completed", "error")
        assert said.get("result") == 10_000_000 or "exceeded" in said["error"]
        assert (await hf.strategies.run("return 1"))["result"] == 1


def test_strategies_that_never_end_are_stopped(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "MOST_IN_FAMILY", 12)
    _never_end(address)


@scene
async def _never_end(address: str) -> None:
    async with opened(address) as hf:
        tight = Limits(wall_ms=200, cpu_ms=200)
        grants = [Capability("packages", "*")]
        await hf.templates.create("tight", language="lua", limits=tight, capabilities=grants)
        said = await hf.strategies.run("while true do end", template="tight")
        assert said["status"] == "error"
        assert "exceeded" in said["error"]
        said = await hf.strategies.run(
            "while true do local r = alc.fork({function() return 1 end}, {}) if not r[1].ok then error(r[1].error) end end",
            name="forks for ever",
        )
        while said["status"] == "waiting":
            said = await hf.strategies.outcome(said["session_id"])
        assert said["status"] == "error"
        assert "12" in said["error"]
        said = await hf.strategies.run(
            "local function deeper(n) local r = alc.fork({function() return deeper(n + 1) end}, {}) return r[1].ok and r[1].result or r[1].error end"
            " return deeper(1)"
        )
        while said["status"] == "waiting":
            said = await hf.strategies.outcome(said["session_id"])
        assert said["status"] == "completed"
        assert "deep" in said["result"]


@scene
async def test_wrong_calls_are_refused_before_anything_is_made(address: str) -> None:
    async with opened(address) as hf:
        await template(hf, "lua")
        for call in (
            hf.strategies.run(7),  # type: ignore[arg-type]
            hf.strategies.run("return 1", language="cobol"),
            hf.strategies.run("return 1", ctx=[1]),  # type: ignore[arg-type]
            hf.strategies.run("return 1", ctx={"budget": 7}),
            hf.strategies.run("return 1", wait_s=-1),
            hf.strategies.run("return 1", name="  "),
            hf.strategies.run("return 1", budget={"max_llm_calls": 1}),  # type: ignore[arg-type]
            hf.strategies.run("x" * (1 << 25)),
            hf.strategies.run("return 1", idempotency_key="k" * 201),
            hf.strategies.run("return 1", language="javascript", template="lua"),
            hf.strategies.advise("reflect", "t", language="javascript", template="lua"),
            hf.strategies.advise("self_consistency", 7),  # type: ignore[arg-type]
            hf.strategies.status(limit=0),
            hf.transcripts.get("nonsense"),
            hf.transcripts.stats(days=-1),
        ):
            with refused("VALIDATION_ERROR"):
                await call
        for name in ("no_such", "../evil", "a/b", "", "x\0y", "..", "é"):
            with pytest.raises(Exception, match=r"no strategy|name of a package"):
                await hf.strategies.advise(name, "t")
        assert (await hf.sessions.list()).items == []


@scene
async def test_a_template_decides_what_a_strategy_gets(address: str) -> None:
    async with opened(address) as hf:
        await hf.templates.create("bare", language="lua")
        for code, text in (
            ("return alc.state.get('x')", "state"),
            ("return alc.card.list()", "card"),
            ("return require('self_consistency')", "self_consistency"),
        ):
            said = await hf.strategies.run(code, template="bare")
            assert said["status"] == "error", code
            assert text in said["error"]
        said = await hf.strategies.advise("self_consistency", "t", template="bare")
        assert said["status"] == "error"


async def _all_done(hf: Holdfast) -> bool:
    return (await hf.strategies.status())["active_sessions"] == 0


@scene
async def test_cancelling_a_run_cancels_its_branches(address: str) -> None:
    async with opened(address) as hf:
        asked = await hf.strategies.run(
            "return alc.fork({function() return alc.llm('a') end, function() return alc.llm('b') end}, {})"
        )
        assert len(asked["queries"]) == 2
        assert (await hf.strategies.cancel(asked["session_id"]))["status"] == "cancelled"
        await eventually(lambda: _all_done(hf))
        for child in (await hf.sessions.list()).items:
            assert child.state in ("ready", "closed")


@scene
async def test_branches_that_cannot_be_stopped_here_do_not_keep_a_run_from_being_cancelled(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(address) as hf:
        branch = "function() return alc.llm('b') end"
        session = (await hf.strategies.run(f"return alc.fork({{{branch}, {branch}}}, {{}})"))["session_id"]
        runtime = hf.strategies._runtime
        run, stop = (await hf.executions.list(session)).items[0].id, runtime.stop

        async def only_here(execution_id: Any) -> None:
            if execution_id != run:
                raise SessionBusy("the session runs in another process")
            await stop(execution_id)

        with monkeypatch.context() as patch:
            patch.setattr(runtime, "stop", only_here)
            assert (await hf.strategies.cancel(session))["status"] == "cancelled"


# ---- a session does more than one run ----------------------------------------------------------------------------------------------


@scene
async def test_an_answer_for_nobody_in_particular_needs_a_single_question_in_all_branches(address: str) -> None:
    async with opened(address) as hf:
        code = "const forked = hf.fork([() => llm('branch')], {}); [await llm('own'), (await forked)[0].result]"
        asked = await hf.strategies.run(code, language="javascript")
        assert [query["prompt"] for query in asked["queries"]] == ["own", "branch"]
        with refused("ANSWER_AMBIGUOUS"):
            await hf.strategies.resume(asked["session_id"], [Response("x")])
        branch = asked["queries"][1]["id"]
        status = await hf.strategies.status(asked["session_id"], include_history=True)
        assert status["metrics"]["tokens"]["current_query"]["query_id"] == branch
        assert status["metrics"]["llm_calls"] == 2
        assert [each["query_id"] for each in status["metrics"]["conversation_history"]] == ["q-2", branch]
        await hf.strategies.resume(asked["session_id"], [Response("B", branch)])
        assert (await hf.strategies.resume(asked["session_id"], [Response("A")]))["result"] == ["A", "B"]


@scene
async def test_a_run_is_told_apart_from_what_else_is_done_in_its_session(address: str) -> None:
    async with opened(address) as hf:
        done = await hf.strategies.run(
            "kept = alc.llm('run') return kept", answer=Recorded([{"prompt": "run", "response": "A"}])
        )
        session = done["session_id"]
        line = await hf.executions.run(session, "alc.ask('line')")
        assert await hf.strategies.outcome(session) == done
        assert await hf.strategies.cancel(session) == done
        assert (await hf.strategies.status(session))["phase"] == "completed"
        assert [one["prompt"] for one in (await hf.transcripts.get(session))["transcript"]] == ["run"]
        assert (await hf.executions.get(line.execution.id)).status == "paused"
        made = len((await hf.sessions.list()).items)
        for at in (None, 2, 0):  # a line of the REPL, the end of the run, and before all
            with refused("CHECKPOINT_NOT_FOUND"):
                await hf.strategies.fork(session, at)
        assert len((await hf.sessions.list()).items) == made
        assert (await hf.strategies.fork(session, 1))["prompt"] == "run"

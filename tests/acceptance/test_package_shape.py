"""Packages of the shape that algocline's have: thirty small ones of our own (tests/packages), which together use all that those use of `alc`.

Each is run by name, with a model that answers by rules, and says what it came to.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, PackagePath, Response
from holdfast.control.answering import text_of
from tests.acceptance.scenes import opened, scene

PACKAGES = Path(__file__).parent.parent / "packages"

USED = [
    "log",
    "llm",
    "json_decode",
    "parallel",
    "parse_score",
    "card.create",
    "math.rng_create",
    "card.write_samples",
    "stats.record",
    "json_encode",
    "math.rng_float",
    "specify",
    "llm_batch",
    "state.set",
    "map",
    "state.get",
    "chunk",
    "math.percentile",
    "tuning",
    "math.wilson_ci",
    "math.median",
    "json_extract",
    "reduce",
    "llm_json",
]
"""What the packages of algocline call, by its own list (section 7)."""


class Model:
    """Answers by what a prompt begins with or has in it."""

    RULES = (
        ("Plan as JSON", '{"steps": ["measure", "cut"], "why": "twice, once"}'),
        ("sorry", '{"name": "Ada", "born": 1815}'),  # it was told what it had said
        ("Extract as broken JSON", "no JSON here, sorry"),
        ("fenced JSON", 'Certainly:\n```json\n{"ok": true, "list": [1, 2]}\n```\nDone.'),
        ("Rate from 1 to 10, judge 1", "3"),
        ("Rate from 1 to 10, judge 5", "I say 10."),
        ("Rate from 1 to 10, round 1", "5 of 10"),
        ("how sure", "4"),
        ("Rate from 1 to 10", "8"),
        ("case 2", "no"),
        ("draw 6", "No."),
        ("Yes or no", "Yes, it is."),
        ("Say three words", "one two, three!"),
        ("c or d", "the second one"),
        ("first or second", "first"),
        ("math or prose", "Math, of course"),
        ("Sample 2", "41"),
        ("Sample", "42"),
    )

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.rounds: list[int] = []

    async def __call__(self, asked: Any) -> Response:
        prompt = text_of(asked)
        self.asked.append(asked.query.payload)
        if prompt.startswith("Fail please"):
            return Response(error="the model is overloaded")
        said = next((answer for key, answer in self.RULES if key in prompt), f"<{prompt[-30:]}>")
        return Response(said, usage={"prompt_tokens": 10, "completion_tokens": 2}, model="rules")


CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "plain_answer": ({}, "<Tea?>"),
    "slow_steps": ({"depth": 2}, lambda got: len(got["steps"]) == 2 and got["conclusion"].endswith("Step 2:>")),
    "many_minds": ({}, {"answer": "42", "votes": 4, "n": 5}),
    "scored_drafts": ({}, {"answer": "<Write a short draft: Tea?>", "score": 8}),
    "json_plan": ({}, lambda got: got["answer"] == "<Do this step: cut>" and got["plan"].startswith('{"steps":["measure"')),
    "patient_json": ({}, lambda got: got["fields"] == {"name": "Ada", "born": 1815}),
    "loose_json": ({}, {"ok": True, "list": [1, 2]}),
    "questioner": ({}, "<hat exactly is meant by: Tea?>>"),
    "grounded_claims": (
        {"task": "Water is wet.\nFire is cold.\n"},
        lambda got: got["n"] == 2 and got["verdicts"][1]["claim"] == "Fire is cold.",
    ),
    "long_text": ({"task": "x" * 95}, lambda got: got.count("<") == 3),
    "batch_views": ({}, lambda got: len(got["views"]) == 3 and "Tea?" in got["views"][2]),
    "remembers": ({}, {"answer": "<Tea?>", "seen": 1}),
    "keeps_score": ({}, lambda got: got["passed"] == 2 and got["card_id"].startswith("keeps_score_")),
    "lucky_order": ({}, lambda got: sorted(got["order"]) == [1, 2, 3, 4] and len(got["said"]) == 4),
    "careful_rate": ({}, lambda got: got["rate"] == 5 / 6 and 0.4 < got["lower"] < 5 / 6 < got["upper"] < 1),
    "middle_score": ({}, lambda got: got["median"] == 8 and 3 <= got["low"] < got["high"] <= 10),
    "tuned": (
        {"tuned": {"rounds": 1, "style": {"tone": "warm"}}},
        lambda got: got["knobs"] == {"rounds": 1, "style": {"tone": "warm", "length": "short"}},
    ),
    "warm_and_cold": ({}, {"warm": "<Tea?>", "cold": "<Tea?>"}),
    "critic_loop": ({}, lambda got: got["rounds"] == 2),
    "two_sides": ({}, lambda got: len(got["sides"]) == 2),
    "decomposes": ({}, lambda got: got["parts"] == ["<measure>", "<cut>"]),
    "has_parts": ({}, "one-two-three"),
    "tournament": ({}, {"answer": "a"}),
    "routes": ({}, {"kind": "math", "answer": "<Calculate: Tea?>"}),
    "escalates": ({}, {"answer": "<Tea?>", "escalated": True}),
    "survives": ({}, lambda got: got["failed"] is True and got["answer"] == "<Try again: Tea?>"),
    "probes": ({}, {"answer": "<Tea?>", "hash": "none"}),
    "counts_votes": ({"ballots": [["a", "b"], ["b", "a"], ["b", "a"]]}, {"winner": "b", "points": {"a": 1, "b": 2}}),
    "flow_frame": ({}, "<TEA?>"),
    "closed_coroutine": ({}, ["<Turn 1: Tea?>", "<Turn 2: Tea?>", "<Turn 3: Tea?>"]),
}


def holdfast(address: str) -> Holdfast:
    return opened(address, packages=PackagePath.of(PACKAGES))


@scene
async def test_thirty_packages_run_unchanged(address: str) -> None:
    assert len(CASES) == 30
    async with holdfast(address) as hf:
        for name, (opts, expected) in CASES.items():
            model = Model()
            reply = await hf.strategies.advise(name, None if "task" in opts else "Tea?", opts=opts, answer=model)
            assert reply["status"] == "completed", (name, reply)
            result = reply["result"]
            got = result.get("result", result)
            assert expected(got) if callable(expected) else got == expected, (name, got)
            assert reply["stats"]["auto"]["llm_calls"] == len(model.asked), name


@scene
async def test_what_they_ask_for_reaches_whoever_answers(address: str) -> None:
    async with holdfast(address) as hf:
        model = Model()
        await hf.strategies.advise("warm_and_cold", "Tea?", answer=model)
        warm, cold = model.asked
        assert (warm["temperature"], warm["role"]) == (1.2, "poet")
        assert (cold["temperature"], cold["role"], cold["stop"]) == (0, "clerk", ["END"])
        reply = await hf.strategies.advise("questioner", "Tea?")
        assert (reply["status"], reply["underspecified"]) == ("needs_response", True)
        reply = await hf.strategies.advise("keeps_score", "Tea?", answer=Model())
        assert reply["stats"]["custom"] == {"pass_rate": pytest.approx(2 / 3)}
        again = await hf.strategies.advise("remembers", "Tea?", answer=Model())
        assert again["result"]["result"] == {"answer": "<Tea?>", "seen": 1}
        again = await hf.strategies.advise("remembers", "Tea?", answer=Model())
        assert again["result"]["result"] == {"answer": "again", "seen": 2}  # another session, the same state


@scene
async def test_a_missing_task_is_their_own_error(address: str) -> None:
    async with holdfast(address) as hf:
        reply = await hf.strategies.advise("plain_answer")
        assert reply["status"] == "error"
        assert "ctx.task does not fit" in reply["error"]


def test_together_they_use_all_that_packages_use() -> None:
    texts = " ".join(path.read_text() for path in PACKAGES.rglob("*.lua"))
    called = {match.group(1) for match in re.finditer(r"alc\.((?:\w+\.)?\w+)\s*\(", texts)}
    assert set(USED) <= called, set(USED) - called

"""The strategies that come with Holdfast, in both languages, with a model that answers by rules. They are examples: both do the same."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Holdfast, PackagePath, Response
from holdfast.control.answering import text_of
from holdfast.domain import Budget
from holdfast.strategies.packages import BUNDLED, Folder
from tests.acceptance.scenes import opened, scene

BOTH = pytest.mark.parametrize("language", ["lua", "javascript"])


class Model:
    """Answers by a rule, and remembers what it was asked."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        self._rule = rule
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, asked: Any) -> str:
        prompt = text_of(asked)
        self.asked.append((prompt, asked.query.payload))
        return self._rule(prompt)


def holdfast() -> Holdfast:
    return opened("memory:", packages=PackagePath([Folder("bundled", BUNDLED)]))


async def result(hf: Holdfast, name: str, language: str, model: Model, **opts: Any) -> tuple[Any, dict[str, Any]]:
    reply = await hf.strategies.advise(name, "What is 6 * 7?", opts=opts, language=language, answer=model)
    assert reply["status"] == "completed", reply
    return reply["result"]["result"], reply["stats"]["auto"]


@BOTH
@scene
async def test_self_consistency_asks_in_one_round_and_counts_votes(language: str) -> None:
    said = [
        "Six times seven...\n**Answer: Forty-two.**",
        "answer: forty-TWO",
        "I think\n41",
        'Answer: "41"',
        "Answer: forty-two\n",
    ]
    model = Model(lambda prompt: said[int(re.findall(r"Attempt (\d)", prompt)[0]) - 1])
    async with holdfast() as hf:
        found, stats = await result(hf, "self_consistency", language, model)
        assert (found["answer"], found["count"], found["total"]) == ("Forty-two", 3, 5)
        assert [one["answer"] for one in found["attempts"]] == ["Forty-two", "forty-TWO", "41", "41", "forty-two"]
        assert (stats["rounds"], stats["llm_calls"]) == (1, 5)
        assert {payload["temperature"] for _, payload in model.asked} == {0.8}
        assert len({prompt for prompt, _ in model.asked}) == 5

        model = Model(lambda prompt: " B " if prompt.startswith("A or B?") else "hm")
        found, stats = await result(hf, "self_consistency", language, model, n=2, extract="A or B?", temperature=0)
        assert (found["answer"].strip(), stats["rounds"], stats["llm_calls"]) == ("B", 2, 4)
        reply = await hf.strategies.advise("self_consistency", "x", opts={"n": 0}, language=language)
        assert (reply["status"], "n must be" in reply["error"]) == ("error", True)
        reply = await hf.strategies.advise("self_consistency", language=language)
        assert "ctx.task is required" in reply["error"]


def critic(prompt: str) -> str:
    if "score from 1 to 10" in prompt:
        return {"draft": "3\nbad", "better": "6/10: hm", "worse": "5", "best": "9. Good."}[
            prompt.split("Draft:\n")[1].split("\n")[0]
        ]
    if "Write it again" in prompt:
        return {"draft": "better", "better": "worse", "worse": "best"}[prompt.split("Draft:\n")[1].split("\n")[0]]
    return "draft"


@BOTH
@scene
async def test_reflect_revises_until_it_is_good(language: str) -> None:
    async with holdfast() as hf:
        found, stats = await result(hf, "reflect", language, Model(critic), rounds=5)
        assert (found["answer"], found["score"], found["good"]) == ("best", 9, True)
        assert [one["text"] for one in found["history"]] == ["draft", "better", "worse", "best"]
        assert stats["llm_calls"] == 8
        found, _ = await result(hf, "reflect", language, Model(critic))
        assert (found["answer"], found["score"], found["good"], len(found["history"])) == ("better", 6, False, 3)
        found, stats = await result(hf, "reflect", language, Model(critic), good=3)
        assert (found["answer"], stats["llm_calls"]) == ("draft", 2)
        found, _ = await result(hf, "reflect", language, Model(critic), rounds=0)
        assert (found["answer"], found["good"]) == ("draft", False)
        reply = await hf.strategies.advise(
            "reflect", "x", opts={"rounds": 9}, language=language, answer=Model(critic), budget=Budget(max_llm_calls=2)
        )
        assert (reply["status"], reply["result"]["result"]["answer"]) == ("completed", "draft")  # it looks at what is left


def thinker(prompt: str) -> str:
    steps = re.findall(r"Step \d:\n(\S+)", prompt)
    if "How promising" in prompt:
        return str({"a1": 4, "a2": 9, "a3": 7}.get(steps[0], 1) if len(steps) == 1 else 10 if steps == ["a3", "a2"] else 5)
    if "Now solve" in prompt:
        return "by " + " ".join(steps)
    return "a" + re.findall(r"try (\d)", prompt)[0]


@BOTH
@scene
async def test_a_tree_of_thoughts_grows_in_forks(language: str) -> None:
    async with holdfast() as hf:
        model = Model(thinker)
        found, stats = await result(hf, "tree_of_thoughts", language, model)
        assert found == {"answer": "by a3 a2", "thoughts": ["a3", "a2"], "score": 10, "explored": 9}
        assert stats["llm_calls"] == len(model.asked) == 2 * 9 + 1
        runs = await hf.strategies.status()
        assert runs["active_sessions"] == 0
        found, _ = await result(hf, "tree_of_thoughts", language, Model(thinker), breadth=2, keep=1, depth=1)
        assert (found["thoughts"], found["explored"]) == (["a2"], 2)


@BOTH
@scene
async def test_a_branch_that_fails_is_left_out(language: str) -> None:
    async def answer(asked: Any) -> Any:
        prompt = text_of(asked)
        return Response(error="no idea") if "try 1" in prompt else thinker(prompt)

    async with holdfast() as hf:
        opts = {"breadth": 2, "keep": 2, "depth": 1}
        reply = await hf.strategies.advise("tree_of_thoughts", "x", opts=opts, language=language, answer=answer)
        assert reply["result"]["result"]["thoughts"] == ["a2"]
        opts["breadth"] = 1
        reply = await hf.strategies.advise("tree_of_thoughts", "x", opts=opts, language=language, answer=answer)
        assert reply["status"] == "error"
        assert "no branch came to anything" in reply["error"]


@scene
async def test_they_are_listed_with_what_they_are_for() -> None:
    async with holdfast() as hf:
        found = await hf.strategies.list()
        assert [(one["name"], one["language"]) for one in found] == [
            (name, language)
            for name in ("reflect", "self_consistency", "tree_of_thoughts")
            for language in ("javascript", "lua")
        ]
        for one in found:
            assert one["source"] == "bundled"
            assert one["version"] == "1.0.0"
            assert one["category"]
            shown = await hf.strategies.show(one["name"], one["language"])
            assert shown["meta"]["name"] == one["name"]
            assert shown["spec"]["entries"]["run"]["input"]["task"]["required"] is True
        languages = [await hf.strategies.show("reflect", language) for language in ("lua", "javascript")]
        assert languages[0]["spec"] == languages[1]["spec"]
        assert languages[0]["meta"] == languages[1]["meta"]

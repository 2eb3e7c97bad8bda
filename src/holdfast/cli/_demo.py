"""`holdfast demo`: a strategy is killed in the middle of a question, and finishes anyway. Then one pause has two futures.

Everything is real but the model: processes that share nothing but a file, and SIGKILL. This module is also what those processes run.
"""

import asyncio
import json as json_format
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.cli._exits import CommandFailed, Exit
from holdfast.cli._tables import drawn
from holdfast.cli._terminal import drawable, painted, print_json

_STRATEGY: Final = """
local words = alc.parallel({ "Oslo", "Lima" }, function(city)
  return "What is " .. city .. " like, in two words?"
end)
local pick = alc.llm("Oslo is " .. words[1] .. ", Lima is " .. words[2] .. ". Which one for a quiet week?")
return pick .. ": " .. alc.llm("By train or by ship?")
"""
_ANSWERS: Final = {"Which one": "Lima", "What is Oslo": "crisp and clear", "What is Lima": "grey and kind"}
_FUTURES: Final = ("by train", "by ship")
_PATIENCE_S: Final = 60


def demo(json: bool) -> int:
    """Plays it, and tells what happens."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        told = _play(f"sqlite:///{folder}/demo.db", quiet=json)
    told["seconds"] = round(time.monotonic() - began, 2)
    if json:
        print_json(told)
    else:
        _say(f"\nAll that in {told['seconds']} seconds. Try it, and press Ctrl-C:")
        _say("    holdfast strategy run self_consistency --task 'Tea or coffee?'")
    return Exit.FINE


def _play(address: str, quiet: bool) -> dict[str, Any]:
    tell = _nothing if quiet else _say
    tell("A strategy, in a session of its own:", "bold")
    tell("\n".join(f"    {line}" for line in _STRATEGY.strip().splitlines()), "dim")

    tell("\n1. A process runs it until it asks the model: two questions, in one round.", "bold")
    with _begun(address) as (process, first):
        for question in first["questions"]:
            tell(f"   process {process.pid}: it asks {question!r}")
        process.send_signal(signal.SIGKILL)
        process.wait()
    tell(f"   process {process.pid} was killed with signal {-process.returncode}. The session is {first['session_id']}")

    tell("\n2. Another process goes on in the middle of the same expression.", "bold")
    second = _done("go-on", first["session_id"], address)
    for question, answer in second["answered"]:
        tell(f"   process {second['pid']}: it asked {question!r}; answered {answer!r}")
    for question in second["questions"]:
        tell(f"   it waits again: {question!r}")

    tell("\n3. That pause is forked: two sessions, two answers, nothing copied.", "bold")
    third = _done("fork", first["session_id"], address)
    for fork in third["forks"]:
        tell(f"   {fork['answer']:8} -> {fork['value']!r}")

    tell("\n4. The history, where each line is a state that can be gone back to:", "bold")
    for line in drawn(third["tree"]):
        tell(f"   {drawable(line, sys.stdout)}")
    return {
        "session_id": first["session_id"],
        "killed_by": -process.returncode,
        "answered": second["answered"],
        "forks": third["forks"],
        "tree": third["tree"],
    }


def _say(text: str, colour: str | None = None) -> None:
    print(text if colour is None else painted(text, colour, sys.stdout), flush=True)


def _nothing(text: str, colour: str | None = None) -> None:
    """For --json: only the end is told."""


# ---- processes ---------------------------------------------------------------------------------------------------------------------


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "holdfast.cli._demo", *words]


@contextmanager
def _begun(address: str) -> "Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]":
    with subprocess.Popen(_command("begin", address), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise CommandFailed("the process of the demo has ended before its script asked", "DEMO_FAILED")
            yield process, json_format.loads(line)
        finally:
            process.kill()


def _done(*words: str) -> dict[str, Any]:
    done = subprocess.run(_command(*words), stdout=subprocess.PIPE, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        raise CommandFailed("a process of the demo has failed", "DEMO_FAILED", "`holdfast doctor` may say why")
    result: dict[str, Any] = json_format.loads(done.stdout)
    return result


async def begin(address: str) -> None:
    """Runs the strategy up to its first questions, and waits for answers that never come."""
    from holdfast.cli._local import opened

    async with opened(address) as local:
        asked = await local.hf.strategies.run(_STRATEGY, name="demo")
        print(json_format.dumps({"session_id": asked["session_id"], "questions": list(_questions(asked).values())}), flush=True)
        await asyncio.sleep(_PATIENCE_S)


async def go_on(session_id: str, address: str) -> None:
    """Answers what can be answered."""
    from holdfast.cli._local import opened
    from holdfast.control import Response

    async with opened(address) as local:
        asked = await local.hf.strategies.outcome(session_id)
        answered: list[tuple[str, str]] = []
        while said := {
            query: (question, _answer(question)) for query, question in _questions(asked).items() if _answer(question)
        }:
            answered += said.values()
            responses = [Response(answer, query) for query, (_, answer) in said.items()]
            asked = await local.hf.strategies.resume(session_id, responses)
        print(json_format.dumps({"pid": os.getpid(), "answered": answered, "questions": list(_questions(asked).values())}))


async def fork(session_id: str, address: str) -> None:
    """Two forks of the same pause, each with an answer of its own."""
    from holdfast.cli._local import opened
    from holdfast.control import Response

    async with opened(address) as local:
        forks = []
        for answer in _FUTURES:
            forked = await local.hf.strategies.fork(session_id, name=answer)
            done = await local.hf.strategies.resume(forked["session_id"], [Response(answer)])
            forks.append({"session_id": forked["session_id"], "answer": answer, "value": done["result"]})
        print(json_format.dumps({"forks": forks, "tree": await local.tree(session_id)}))


def _questions(reply: dict[str, Any]) -> dict[str, str]:
    """What is asked, by the ids of the queries."""
    if "queries" in reply:
        return {query["id"]: query["prompt"] for query in reply["queries"]}
    return {reply["query_id"]: reply["prompt"]}


def _answer(question: str) -> str:
    """What the model of the demo says; nothing to the last question."""
    return next((answer for words, answer in _ANSWERS.items() if words in question), "")


if __name__ == "__main__":
    _parts = {"begin": begin, "go-on": go_on, "fork": fork}
    asyncio.run(_parts[sys.argv[1]](*sys.argv[2:]))  # type: ignore[operator]

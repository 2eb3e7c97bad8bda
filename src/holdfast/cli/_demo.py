"""`holdfast demo`: a script is killed in the middle of a question, and finishes anyway. Then one pause has two futures.

Everything is real: processes that share nothing but a file, and SIGKILL. This module is also what those processes run.
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

_SCRIPT: Final = """
const notes = [];
for (const city of ["Oslo", "Lima"]) notes.push(`${city} is ${await ask(`What is ${city} like?`)}`);
notes.push(await ask("Left or right?"));
notes.join(", ")
"""
_ANSWERS: Final = {"Oslo": "crisp", "Lima": "grey and kind"}
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
        _say(f"\nAll that in {told['seconds']} seconds. Try it: holdfast run -e 'await ask(\"Who?\")', and press Ctrl-C.")
    return Exit.FINE


def _play(address: str, quiet: bool) -> dict[str, Any]:
    tell = _nothing if quiet else _say
    tell("A script, in a session of its own:", "bold")
    tell("\n".join(f"    {line}" for line in _SCRIPT.strip().splitlines()), "dim")

    tell("\n1. A process runs it until it asks something.", "bold")
    with _begun(address) as (process, first):
        tell(f"   process {process.pid}: it asks {first['question']!r}")
        process.send_signal(signal.SIGKILL)
        process.wait()
    tell(f"   process {process.pid} was killed with signal {-process.returncode}. The session is {first['session_id']}")

    tell("\n2. Another process goes on in the middle of the same expression.", "bold")
    second = _done("go-on", first["session_id"], address)
    for question, answer in second["answered"]:
        tell(f"   process {second['pid']}: it asked {question!r}; answered {answer!r}")
    tell(f"   it waits again: {second['question']!r}")

    tell("\n3. That pause is forked: two sessions, two answers, nothing copied.", "bold")
    third = _done("fork", first["session_id"], address)
    for fork in third["forks"]:
        tell(f"   {fork['answer']:5} -> {fork['value']!r}")

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
    """Runs the script up to its first question, and waits for an answer that never comes."""
    from holdfast.cli._local import opened

    async with opened(address) as local:
        session = await local.begin("javascript", {}, "demo", {})
        execution = await local.run(session["id"], _SCRIPT)
        print(json_format.dumps({"session_id": session["id"], "question": _question(execution)}), flush=True)
        await asyncio.sleep(_PATIENCE_S)


async def go_on(session_id: str, address: str) -> None:
    """Answers what can be answered."""
    from holdfast.cli._local import opened

    async with opened(address) as local:
        session = await local.session(session_id)
        execution = await local.look(session["execution_id"], _PATIENCE_S)
        answered = []
        while (answer := next((text for city, text in _ANSWERS.items() if city in _question(execution)), None)) is not None:
            answered.append((_question(execution), answer))
            execution = await local.answer(session_id, execution["queries"][0]["id"], answer)
        print(json_format.dumps({"pid": os.getpid(), "answered": answered, "question": _question(execution)}))


async def fork(session_id: str, address: str) -> None:
    """Two forks of the same pause, each with an answer of its own."""
    from holdfast.cli._local import opened

    async with opened(address) as local:
        forks = []
        for answer in ("left", "right"):
            forked = await local.fork(session_id, name=answer)
            (query,) = await local.queries(forked["id"])
            execution = await local.answer(forked["id"], query["id"], answer)
            forks.append({"session_id": forked["id"], "answer": answer, "value": execution["result"]["json"]})
        print(json_format.dumps({"forks": forks, "tree": await local.tree(session_id)}))


def _question(execution: dict[str, Any]) -> str:
    question: str = execution["queries"][0]["payload"]["question"]
    return question


if __name__ == "__main__":
    _parts = {"begin": begin, "go-on": go_on, "fork": fork}
    asyncio.run(_parts[sys.argv[1]](*sys.argv[2:]))  # type: ignore[operator]

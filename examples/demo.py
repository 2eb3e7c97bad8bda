"""The main job in one minute: a script is killed in the middle of a question, and finishes anyway.

Run it with `make demo`. It starts a process that runs a session until its script asks something, kills that process with SIGKILL, and lets
another one answer. At the end it forks one pause into two futures, rewinds, and stops an endless loop.
"""

import asyncio
import signal
import subprocess
import sys
import tempfile
from typing import Literal

from holdfast import Holdfast, Limits, Turn

Language = Literal["javascript", "lua"]

SCRIPTS: dict[Language, str] = {
    "javascript": """
        const cities = ["Oslo", "Lima", "Pune"];
        const notes = new Map();
        for (const city of cities) notes.set(city, `${city} is ${await llm(`What is ${city} like?`)}`);
        [...notes.values()].join("; ")
    """,
    "lua": """
        local notes = {}
        for _, city in ipairs {"Oslo", "Lima", "Pune"} do
            notes[#notes + 1] = city .. " is " .. alc.llm("What is " .. city .. " like?")
        end
        return table.concat(notes, "; ")
    """,
}
ANSWERS = {"Oslo": "crisp", "Lima": "grey and kind", "Pune": "loud"}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        address = f"sqlite:///{folder}/work.db"
        for language in SCRIPTS:
            tell(language, address)
        asyncio.run(branch(address))


def tell(language: Language, address: str) -> None:
    print(f"\n{language}: a process runs a session until its script asks something")
    command = [sys.executable, __file__, "begin", language, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        session, question = process.stdout.readline().split(" ", 1)
        print(f"  it asks: {question.strip()}")
        process.send_signal(signal.SIGKILL)
    print(f"  killed with signal {-process.returncode}; the session is in the store")
    print("  another process goes on in the middle of the same expression")
    command = [sys.executable, __file__, "go-on", session, address]
    for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        print("  " + line)


async def begin(language: Language, address: str) -> None:
    """Runs the script to its first question, and waits for an answer that never comes."""
    async with Holdfast.open(address) as hf:
        await hf.templates.create(language, language=language)
        session = await hf.sessions.create(language)
        turn = await hf.executions.run(session.id, SCRIPTS[language])
        print(session.id, turn.queries[0].payload["prompt"], flush=True)
        signal.pause()


async def go_on(session: str, address: str) -> None:
    """Answers whatever the script asks, until it has a value."""
    async with Holdfast.open(address) as hf:
        (query,) = (await hf.queries.list(session)).items
        turn = await hf.queries.answer(session, ANSWERS["Oslo"], query=query.id)
        while turn.queries:
            prompt = turn.queries[0].payload["prompt"]
            print(f"it asks: {prompt}")
            turn = await hf.queries.answer(session, next(text for city, text in ANSWERS.items() if city in prompt))
        print(f"it ends: {value(turn)}")


async def branch(address: str) -> None:
    async with Holdfast.open(address) as hf:
        print("\nforks: one pause, two futures, and no byte copied")
        await hf.templates.create("short", limits=Limits(wall_ms=200))
        session = await hf.sessions.create("short")
        await hf.executions.run(
            session.id, "const trail = ['start']; trail.push(await ask('Left or right?')); trail.join(' > ')"
        )
        for answer in ("left", "right"):
            fork = await hf.sessions.fork(session.id)
            print(f"  {value(await hf.queries.answer(fork.id, answer))}")
        print("rewind: the same pause once more, in the same session")
        print(f"  {value(await hf.queries.answer(session.id, 'down'))}")
        await hf.sessions.rewind(session.id, 1)
        print(f"  {value(await hf.queries.answer(session.id, 'up'))}")

        print("\nlimits: an endless loop in native code, with 200 ms to run")
        turn = await hf.executions.run(session.id, 'try { new Array(1e9) + "" } catch {}')
        assert turn.execution.error is not None
        print(f"  {turn.execution.status}: {turn.execution.error['message']}")
        print(f"  and the session is as it was: {value(await hf.executions.run(session.id, 'trail.join()'))}")


def value(turn: Turn) -> str:
    assert turn.execution.result is not None, turn.execution.error
    return str(turn.execution.result["json"])


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        _, part, what, where = sys.argv
        asyncio.run({"begin": begin, "go-on": go_on}[part](what, where))  # type: ignore[operator]

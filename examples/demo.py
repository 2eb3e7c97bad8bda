"""The main job in one minute: a script is killed in the middle of a question, and finishes anyway.

Run it with `make demo`. It starts a process that runs a script until it asks something, kills that process with SIGKILL, and lets a
second process go on in the middle of the same expression. At the end it forks one pause into two futures.
"""

import secrets
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from holdfast.domain import Limits
from holdfast.sandbox import Breached, Engine, Finished, Image, Language, Outcome, Paused, Template

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
        for language in SCRIPTS:
            tell(language, Path(folder) / f"{language}.image", secrets.token_bytes(32))
    fork()
    refuse()


def tell(language: Language, file: Path, key: bytes) -> None:
    print(f"\n{language}: a process runs the script until it asks something")
    command = [sys.executable, __file__, "begin", language, str(file), key.hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        print("  " + process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
    print(f"  killed with signal {-process.returncode}; {file.stat().st_size} bytes are left of it")
    print("  another process goes on where it stopped")
    command[2] = "go-on"
    for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        print("  " + line)


def begin(template: Template, file: Path, key: bytes) -> None:
    """Runs the script to its first question, keeps the image, and waits for an answer that never comes."""
    sandbox = template.create()
    outcome = sandbox.evaluate(SCRIPTS[template.guest.language])
    assert isinstance(outcome, Paused), outcome
    file.write_bytes(sandbox.freeze().seal(key, template))
    print(f"it asks: {outcome.queries[0].payload['prompt']}", flush=True)
    signal.pause()


def go_on(template: Template, file: Path, key: bytes) -> None:
    """Thaws the image and answers whatever the script asks, until it has a value."""
    with template.thaw(template.open(file.read_bytes(), key)) as sandbox:
        outcome: Outcome = sandbox.resume({1: ANSWERS["Oslo"]})
        while isinstance(outcome, Paused):
            (query,) = outcome.queries
            print(f"it asks: {query.payload['prompt']}")
            answer = next(text for city, text in ANSWERS.items() if city in query.payload["prompt"])
            outcome = sandbox.resume({query.id: answer})
        assert isinstance(outcome, Finished), outcome
        print(f"it ends: {outcome.result.value}")


def fork() -> None:
    print("\nforks: one pause, two futures")
    with Engine() as engine:
        template = engine.guest("javascript").template()
        with template.create() as sandbox:
            sandbox.evaluate("let trail = []; trail.push(await ask('Left or right?')); trail.join()")
            image: Image = sandbox.freeze()
        for answer in ("left", "right"):
            with template.fork(image) as branch:
                outcome = branch.resume({1: answer})
                assert isinstance(outcome, Finished), outcome
                print(f"  {outcome.result.value}")


def refuse() -> None:
    print("\nlimits: an endless loop in native code, with 200 ms to run")
    with Engine() as engine:
        template = engine.guest("javascript").template()
        with template.create(limits=Limits(wall_ms=200)) as sandbox:
            outcome = sandbox.evaluate('try { new Array(1e9) + "" } catch {}')
            assert isinstance(outcome, Breached), outcome
            print(f"  {outcome.breach}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        _, part, name, path, secret = sys.argv
        with Engine() as one:
            work = {"begin": begin, "go-on": go_on}[part]
            work(one.guest(name).template(), Path(path), bytes.fromhex(secret))  # type: ignore[arg-type]

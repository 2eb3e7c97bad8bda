"""`exec`: what programs get and what they leave behind. What is refused is mostly asked of the module itself, which is what sessions call."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast import Capability, Limits, Settings
from holdfast.capabilities import NativeModules, Scope
from holdfast.capabilities._meter import Meter
from holdfast.capabilities.exec.module import Exec
from holdfast.capabilities.exec.patterns import BadPattern, Pattern
from holdfast.capabilities.native import Grant
from holdfast.domain import InvalidValue
from holdfast.sandbox import HostError
from tests.acceptance.scenes import eventually, opened, scene, value
from tests.modules import place

SHELL = ["/bin/sh"]
Call = Callable[..., Any]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A worktree beside a secret and a place for programs."""
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "bin").mkdir()
    folder = tmp_path / "tree"
    (folder / "lib").mkdir(parents=True)
    (folder / "note.txt").write_text("note")
    (folder / "out").symlink_to("..")
    (folder / "in").symlink_to("lib")
    return folder


def functions(tree: Path | None, config: dict[str, Any], *, stop: threading.Event | None = None) -> dict[str, Call]:
    """The functions of a session that was granted this, as its runtime has them."""
    scope = Scope(uuid4(), uuid4(), None if tree is None else str(tree), is_stopped=stop.is_set if stop else bool)
    modules = NativeModules([Grant(Exec, Exec.settle(config))], scope, Meter())
    found: dict[str, Call] = {name.removeprefix("exec."): call for name, call, _ in modules.functions()}
    for name, (wait, once, _) in modules.waiting():
        assert once
        found[name.removeprefix("exec.")] = lambda *given, wait=wait: wait(list(given), stop or threading.Event())
    return found


def refusal(call: Call, *given: Any) -> str | None:
    """The code of what a call raises. What it says is no news of the host."""
    with pytest.raises(HostError) as raised:
        call(*given)
    assert "Traceback" not in str(raised.value)
    return raised.value.script_code


def program(path: Path, text: str = "#!/bin/sh\necho mine\n") -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def pids(file: Path) -> list[int]:
    return [int(pid) for pid in file.read_text().split()]


def are_gone(file: Path) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids(file))


# ---- patterns


@pytest.mark.parametrize(
    ("pattern", "taken", "refused"),
    [
        ("log", ["log"], ["", "logs", "LOG", "lo", "log\n", "--log"]),
        ("", [""], ["a"]),
        ("v[0-9]+", ["v1", "v007"], ["v", "v1.2", "v\u0661"]),
        ("[a-z][a-z0-9./_-]*", ["src/a.txt", "a"], ["-x", "--upload-pack=id", "", "A", "a b"]),
        ("--(?:name|only)=\\w+", ["--name=a_1", "--only=x"], ["--name=", "--name=a b", "--name"]),
        ("a{2}b{1,2}c{0,}", ["aab", "aabbccc"], ["ab", "aabbb", "aaab"]),
        ("[^-].*", ["x-", "é"], ["-x", "", "-"]),
        ("\\.\\*\\[\\]\\\\", [".*[]\\"], ["a*[]\\"]),
        ("[\\d\\s]|x?", ["7", " ", "x", ""], ["xx", "a"]),
        ("[a-]+", ["a-a"], ["b"]),
        ("(ab|a)(c|bc)", ["abc", "ac", "abbc"], ["ab"]),
    ],
)
def test_a_pattern_is_about_a_whole_argument(pattern: str, taken: list[str], refused: list[str]) -> None:
    ready = Pattern(pattern)
    assert [text for text in taken if not ready.matches(text)] == []
    assert [text for text in refused if ready.matches(text)] == []


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "[", "[]", "[^]", "a**", "a+?", "*", "a{", "a{b}", "a{2,1}", "a{9999}", "^a", "a$", "\\", "\\b", "\\1", "(?=a)", "(?i)a", "[z-a]", "[[:alpha:]]",
     "a" * 501, "((a{100}){100}){100}", "(((){200}){200}){200}"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a?){200}a{200}b", "(.*.*.*.*)*b", "(a|ab|aab)*c"])
def test_no_argument_takes_a_pattern_long(pattern: str) -> None:
    assert not Pattern(pattern).matches("a" * 4_000)  # with other ways to match it is a matter of years


# ---- what is granted


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"programs": ["echo"]}, "config.programs[0]"),
        ({"programs": ["/bin/echo", "/no/such/program"]}, "config.programs[1]"),
        ({"programs": ["/bin"]}, "config.programs[0]"),
        ({"programs": ["/etc/passwd"]}, "config.programs[0]"),
        ({"programs": ["/bin/e\0cho"]}, "config.programs[0]"),
        ({"programs": "/bin/echo"}, "config.programs"),
        ({"programs": [{}]}, "config.programs[0].path"),
        ({"programs": [{"path": "/bin/echo", "shell": True}]}, "config.programs[0].shell"),
        ({"programs": [{"path": "/no/such/program"}]}, "config.programs[0].path"),
        ({"programs": [{"path": "/bin/echo", "real": "/bin/other"}]}, "config.programs[0].real"),
        ({"programs": [{"path": "/bin/echo", "digest": "sha256:00"}]}, "config.programs[0].digest"),
        ({"programs": [{"path": "/bin/echo", "args": ["a", "("]}]}, "config.programs[0].args[1]"),
        ({"programs": [{"path": "/bin/echo", "args": ["..."]}]}, "config.programs[0].args"),
        ({"programs": [{"path": "/bin/echo", "env": ["A", "B=C"]}]}, "config.programs[0].env[1]"),
        ({"programs": [{"path": "/bin/echo", "env": ["LD_PRELOAD"]}]}, "config.programs[0].env[0]"),
        ({"programs": [{"path": "/bin/echo", "env": ["PATH"], "inherit": ["PATH"]}]}, "config.programs[0].env[0]"),
        ({"programs": [{"path": "/bin/echo", "inherit": ["HOLDFAST_TOKEN"]}]}, "config.programs[0].inherit[0]"),
        ({"max_processes": 0}, "config.max_processes"),
        ({"max_memory_mb": -1}, "config.max_memory_mb"),
        ({"max_output_bytes": 1 << 30}, "config.max_output_bytes"),
        ({"timeout_ms": 600_001}, "config.timeout_ms"),
    ],
)
def test_a_bad_config_is_refused_by_the_path_of_its_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        Exec.settle(config)
    assert raised.value.details["field"] == field
    assert str(raised.value).startswith(field)


def test_what_a_path_leads_to_is_settled_when_it_is_granted(tree: Path) -> None:
    bin_ = tree.parent / "bin"
    tool = program(bin_ / "tool")
    (bin_ / "link").symlink_to("tool")
    link = str(bin_ / "link")
    kept = Exec.settle({"programs": [link, {"path": tool, "pinned": False}], "timeout_ms": 5_000})
    assert kept["programs"][0]["path"] == link
    assert kept["programs"][0]["real"] == tool
    assert kept["programs"][0]["digest"].startswith("sha256:")
    assert "digest" not in kept["programs"][1]
    assert Exec.settle(kept) == kept
    at = functions(tree, kept)  # type: ignore[arg-type]
    assert at["run"](link) == "mine\n"
    program(bin_ / "other", "#!/bin/sh\necho other\n")
    (bin_ / "link").unlink()
    (bin_ / "link").symlink_to("other")
    assert at["run"](link) == "mine\n"  # the file that was granted, whatever the link says now
    program(bin_ / "tool", "#!/bin/sh\necho changed\n")
    assert refusal(at["run"], link) == "PROGRAM_NOT_ALLOWED"
    assert at["run"](tool) == "changed\n"  # whose contents may change, by the template
    (bin_ / "tool").unlink()
    (bin_ / "tool").symlink_to("other")
    assert refusal(at["run"], tool) == "PROGRAM_NOT_ALLOWED"
    (bin_ / "tool").unlink()
    assert refusal(at["spawn"], tool) == "PROGRAM_NOT_ALLOWED"
    with pytest.raises(InvalidValue):
        Exec.settle(kept)


def test_a_program_in_the_worktree_is_none(tree: Path) -> None:
    inside = program(tree / "tool")
    (tree.parent / "bin" / "tool").symlink_to(inside)
    names = [inside, str(tree.parent / "bin" / "tool")]
    at = functions(tree, {"programs": names})
    for name in names:
        assert refusal(at["run"], name) == "PROGRAM_NOT_ALLOWED"


def test_one_that_was_swapped_for_another_of_its_size_and_age_is_noticed(tree: Path) -> None:
    tool = program(tree.parent / "bin" / "tool", "#!/bin/sh\necho one\n")
    at = functions(tree, {"programs": [tool]})
    assert at["run"](tool) == "one\n"
    before = os.stat(tool)
    program(Path(tool), "#!/bin/sh\necho two\n")
    os.utime(tool, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert refusal(at["run"], tool) == "PROGRAM_NOT_ALLOWED"


# ---- what a call may say


@pytest.fixture
def some(tree: Path) -> dict[str, Call]:
    config = {
        "programs": [
            {"path": "/bin/echo", "args": ["log", "-n", "[0-9]{1,3}"]},
            {"path": "/bin/echo", "args": ["show", "[a-z][a-z.]*", "..."]},
            {"path": "/bin/cat", "args": []},
            {"path": "/usr/bin/env", "args": [], "env": ["GIVEN"], "inherit": ["HANDED_DOWN", "NOT_SET"]},
            {"path": "/bin/pwd"},
        ]
    }
    return functions(tree, config)


def test_arguments_are_held_to_their_patterns(some: dict[str, Call]) -> None:
    run = some["run"]
    assert run("/bin/echo", ["log", "-n", "12"]) == "log -n 12\n"
    assert run("/bin/echo", ["show"]) == "show\n"
    assert run("/bin/echo", ["show", "a", "b.c"]) == "show a b.c\n"
    for args in (
        [], ["log"], ["log", "-n"], ["log", "-n", "1234"], ["log", "-n", "1\n"], ["log", "-n", "1", "2"], ["-n", "log", "1"], ["log", "-n", "1; id"],
        ["show", "--exec=id"], ["show", "a", "-rf"], ["show", "../x"], ["show", ""], ["show", "a" * 9_000], ["log -n 1"], ["show", *["a"] * 998, "-x"],
    ):  # fmt: skip
        assert refusal(run, "/bin/echo", args) == "ARGUMENTS_NOT_ALLOWED", args
    assert refusal(run, "/bin/cat", ["/etc/passwd"]) == "ARGUMENTS_NOT_ALLOWED"


@pytest.mark.parametrize("function", ["run", "spawn", "spawnSync"])
def test_what_is_not_allowed_is_refused_before_anything_runs(some: dict[str, Call], tree: Path, function: str) -> None:
    call = some[function]
    for cmd in (
        "echo",
        "/bin/../bin/echo",
        "/bin//echo",
        "/bin/echo ",
        "/bin/ls",
        "/bin/sh",
        "",
        "/bin/echo\0",
        "./note.txt",
        "/usr/bin/ENV",
    ):
        assert refusal(call, cmd, []) == "PROGRAM_NOT_ALLOWED", cmd
    for env in (
        {"LD_PRELOAD": "x.so"},
        {"PATH": "/tmp"},
        {"GIVEN": "1", "OTHER": "2"},
        {"": "x"},
        {"GIVEN=1\nA": "x"},
        {"HANDED_DOWN": "x"},
    ):
        assert refusal(call, "/usr/bin/env", [], {"env": env}) == "VARIABLE_NOT_ALLOWED", env
    for cwd in ("..", "/", "/tmp", "out", "out/bin", "lib/../..", str(tree.parent), "note.txt", "a\\b", "a\0b"):
        assert refusal(call, "/bin/pwd", [], {"cwd": cwd}) == "INVALID_PATH", cwd
    assert refusal(call, "/bin/pwd", [], {"cwd": "no"}) == "FILE_NOT_FOUND"
    for given in (
        ["/bin/pwd", "text"], ["/bin/pwd", [1]], ["/bin/pwd", [None]], ["/bin/pwd", ["a\0b"]], ["/bin/pwd", ["x" * 200_000]], ["/bin/pwd", ["x"] * 1_001],
        ["/bin/pwd", ["\ud800"]], [["/bin/pwd"]], [], ["/bin/pwd", [], "text"], ["/bin/pwd", [], {"shell": True}], ["/bin/pwd", [], {"input": 7}],
        ["/bin/pwd", [], {"timeoutMs": 0}], ["/bin/pwd", [], {"timeoutMs": -1}], ["/bin/pwd", [], {"timeoutMs": "1"}],
        ["/bin/pwd", [], {"timeoutMs": float("nan")}], ["/usr/bin/env", [], {"env": {"GIVEN": "a\0b"}}], ["/usr/bin/env", [], {"env": {"GIVEN": 1}}],
        ["/bin/pwd", [], {"input": "x" * (1 << 20) + "x"}], ["/bin/pwd", [], {}, 1],
    ):  # fmt: skip
        assert refusal(call, *given) == "INVALID_ARGUMENT", given[:1]


def test_options(some: dict[str, Call], tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDED_DOWN", "from the daemon")
    monkeypatch.setenv("AWS_SECRET", "secret")
    spawn = some["spawnSync"]
    told = spawn("/usr/bin/env", [], {"env": {"GIVEN": "a=b\nc"}})["stdout"]
    assert sorted(told.splitlines()) == [
        "GIVEN=a=b",
        "HANDED_DOWN=from the daemon",
        "LANG=C.UTF-8",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "c",
    ]
    for cwd in ("lib", "in", str(tree / "lib"), "./lib/."):
        assert some["run"]("/bin/pwd", ["-P"], {"cwd": cwd}) == f"{tree}/lib\n"
    assert some["run"]("/bin/pwd", [], {"cwd": None, "env": None, "input": None, "timeoutMs": None}) == f"{tree}\n"
    large = "é" * 500_000
    assert some["run"]("/bin/cat", [], {"input": large}) == large
    assert some["run"]("/bin/pwd", [], {"input": large}) == f"{tree}\n"  # nobody reads it


def test_a_folder_that_is_swapped_for_a_link_leads_nowhere_else(tree: Path, some: dict[str, Call]) -> None:
    over = threading.Event()

    def swap() -> None:
        (tree / "link").symlink_to("..")
        while not over.is_set():
            os.rename(tree / "lib", tree / "kept")
            os.rename(tree / "link", tree / "lib")
            os.rename(tree / "lib", tree / "link")
            os.rename(tree / "kept", tree / "lib")

    thread = threading.Thread(target=swap)
    thread.start()
    found = set()
    for _ in range(8):
        try:
            found.add(some["run"]("/bin/pwd", ["-P"], {"cwd": "lib"}))
        except HostError as error:
            found.add(str(error.script_code))
    over.set()
    thread.join()
    assert found <= {f"{tree}/lib\n", f"{tree}/kept\n", "INVALID_PATH", "FILE_NOT_FOUND"}


def test_without_a_worktree_nothing_is_run(tree: Path) -> None:
    assert refusal(functions(None, {"programs": SHELL})["run"], "/bin/sh") == "WORKTREE_NOT_FOUND"
    at = functions(tree, {"programs": SHELL})
    shutil.move(tree, tree.parent / "moved")
    tree.symlink_to("/tmp")
    assert refusal(at["run"], "/bin/sh", ["-c", "pwd"]) == "WORKTREE_NOT_FOUND"


# ---- where it runs


def test_a_program_gets_a_clean_place(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "secret")
    leak = os.open(tree / "note.txt", os.O_RDONLY)
    os.set_inheritable(leak, True)
    text = """
        cat; pwd; env | sort; ls /proc/$$/fd
        ulimit -c; ulimit -n; ulimit -d
        while read -r line; do case "$line" in NoNewPrivs*|SigIgn*|SigBlk*) echo "$line";; esac; done < /proc/$$/status
        { tr '\\0' '\\n' < /proc/$PPID/environ | grep -c -v -e ^LD_LIBRARY_PATH= -e ^LC_CTYPE=; } 2>/dev/null  # empty, or refused
        read pid name state parent group session rest < /proc/$$/stat; echo $((pid == group && group == session)) "$1"
    """
    try:
        given = "$(id); `id` * é"
        ended = functions(tree, {"programs": SHELL})["spawn"]("/bin/sh", ["-c", text, "-", given])
    finally:
        os.close(leak)
    assert ended["stderr"] == ""
    # The C library keeps two signals for itself, which nobody can set back.
    said = [re.sub(r"(?<=SigIgn:\t00000000)[08]", "0", line) for line in ended["stdout"].splitlines()]
    assert said == [
        str(tree), "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", f"PWD={tree}", "0", "1", "2", "0", "256", str(1 << 20),
        "SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000", "NoNewPrivs:\t1", "0", f"1 {given}",
    ]  # fmt: skip
    assert (ended["code"], ended["timedOut"]) == (0, False)


def test_how_it_ends_is_told(tree: Path) -> None:
    broken = program(tree.parent / "bin" / "broken", "#!/no/such/interpreter\n")
    at = functions(tree, {"programs": [*SHELL, broken]})
    run, spawn = at["run"], at["spawnSync"]
    assert spawn("/bin/sh", ["-c", "echo a; echo b >&2; exit 3"]) == {
        "code": 3,
        "stdout": "a\n",
        "stderr": "b\n",
        "timedOut": False,
    }
    assert run("/bin/sh", ["-c", "echo a; echo b >&2; printf '\\377'"]) == "a\nb\n\ufffd"
    with pytest.raises(HostError, match=r"^the program ended with status 3: why$") as raised:
        run("/bin/sh", ["-c", "echo why; exit 3"])
    assert raised.value.script_code == "PROGRAM_FAILED"
    assert spawn("/bin/sh", ["-c", "kill -9 $$"])["code"] == 137
    assert refusal(run, "/bin/sh", ["-c", "kill -9 $$"]) == "PROGRAM_FAILED"
    assert refusal(spawn, broken) == "PROGRAM_FAILED"


# ---- that it ends

AWAY = """
    setsid sh -c 'echo $$ >> pids; exec sleep 60' &
    (setsid sh -c '(sleep 60 & echo $! >> pids) &' &) &
    sh -c 'trap "" HUP TERM INT; echo $$ >> pids; while :; do sleep 60; done' &
    while [ $(wc -l < pids || echo 0) -lt 3 ]; do sleep 0.01; done 2> /dev/null
"""


@pytest.mark.parametrize(
    ("end", "config", "outcome"),
    [
        ("echo done", {}, "ended"),
        ("kill -9 $$", {}, "ended"),
        ("kill -STOP $PPID; sleep 60", {"timeout_ms": 1_000}, "timed out"),
        ("exec > /dev/null 2>&1; sleep 60", {"timeout_ms": 1_000}, "timed out"),
        ("while :; do echo flood; done", {"max_output_bytes": 10_000}, "OUTPUT_TOO_LARGE"),
        ("for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; wait", {"max_processes": 12}, "PROCESSES_EXCEEDED"),
        ("echo > begun; sleep 60", {}, "CANCELLED"),
    ],
)
def test_all_that_came_of_a_program_ends_with_it(tree: Path, end: str, config: dict[str, Any], outcome: str) -> None:
    stop = threading.Event()
    (tree / "pids").touch()
    spawn = functions(tree, {"programs": SHELL, **config}, stop=stop)["spawn"]
    given = ("/bin/sh", ["-c", f"{AWAY} echo $$ >> pids; {end}"])
    if outcome in ("ended", "timed out"):
        assert spawn(*given)["timedOut"] is (outcome == "timed out")
    else:
        if outcome == "CANCELLED":
            threading.Thread(target=_when, args=(tree / "begun", stop.set), daemon=True).start()
        assert refusal(spawn, *given) == outcome
    assert len(pids(tree / "pids")) == 4 or outcome == "timed out"  # perhaps before all of it was there
    assert are_gone(tree / "pids")


def _when(file: Path, do: Callable[[], None]) -> None:
    while not file.exists():
        time.sleep(0.01)
    do()


def test_many_at_once_have_their_own_each(tree: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    spawn = functions(tree, {"programs": SHELL})["spawn"]
    told: dict[int, str] = {}

    def tell(number: int) -> None:
        told[number] = spawn("/bin/sh", ["-c", "cat; ls /proc/$$/fd; true"], {"input": f"{number} "})["stdout"]

    threads = [threading.Thread(target=tell, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == {n: f"{n} 0\n1\n2\n" for n in range(6)}
    assert set(os.listdir("/proc/self/fd")) == before


# ---- in sessions


@scene
async def test_scripts_wait_for_programs(tree: Path) -> None:
    config = {"programs": [*SHELL, {"path": "/bin/echo", "args": ["[a-z]+"]}], "timeout_ms": 20_000}
    async with place(tree, exec=config, limits=Limits(wall_ms=10_000)) as at:
        here = await at.session()
        assert await at.run(here, "Object.keys(require('exec')).sort().join()") == "run,spawn,spawnSync"
        await at.run(here, "var exec = require('exec'), sh = (text, o) => exec.spawn('/bin/sh', ['-c', text], o)")
        assert await at.run(here, "exec.run('/bin/echo', ['hello']).trim()") == "hello"
        assert await at.run(here, "exec.spawnSync('/bin/echo', ['hello']).stdout") == "hello\n"
        expected = {"code": 3, "stdout": "in", "stderr": "e\n", "timedOut": False}
        assert await at.run(here, "await sh('cat; echo e >&2; exit 3', {input: 'in', cwd: 'lib'})") == expected
        many = "(await Promise.all([1, 2, 3].map(n => sh('echo ' + n)))).map(one => one.stdout.trim())"
        assert await at.run(here, many) == ["1", "2", "3"]
        assert await at.run(here, "(await sh('sleep 60', {timeoutMs: 100})).timedOut") is True
        turn = await at.hf.executions.run(here, "await exec.spawn('/bin/echo', ['-n']).catch(e => e.code)")
        assert turn.execution.result is not None
        assert turn.execution.result["json"] == "ARGUMENTS_NOT_ALLOWED"
        told = [event.payload for event in await at.hf.executions.events(turn.execution.id) if event.type == "system"]
        assert [one["code"] for one in told] == ["ARGUMENTS_NOT_ALLOWED"]
        for number, source in enumerate(("await sh(TEXT)", "exec.run('/bin/sh', ['-c', TEXT])")):
            file = tree / f"pid{number}"
            text = f"'echo $$ > part; mv part pid{number}; sleep 60'"
            turn = await at.hf.executions.run(here, source.replace("TEXT", text), background=True)
            await eventually(_look(file.exists))
            await at.hf.executions.cancel(turn.execution.id)
            await eventually(_look(partial(are_gone, file)))
        assert await at.run(here, "1 + 1") == 2
        await at.hf.templates.create(
            "short", limits=Limits(wall_ms=300), capabilities=[Capability("module", "exec", True, config)]
        )
        at.template = "short"
        source = "try { require('exec').run('/bin/sh', ['-c', 'sleep 60']) } catch {} for (;;);"
        assert (await at.hf.executions.run(await at.session(), source)).execution.status == "timeout"


@scene
async def test_lua_scripts_wait_for_programs(tree: Path) -> None:
    async with place(tree, language="lua", exec={"programs": SHELL}) as at:
        here = await at.session()
        await at.run(here, "exec = require('exec') sh = function(text, o) return exec.spawn('/bin/sh', {'-c', text}, o) end")
        assert await at.run(here, "return exec.run('/bin/sh', {'-c', 'echo a'})") == "a\n"
        assert await at.run(here, "return exec.run('/bin/sh', {}, {})") == ""
        assert await at.run(here, "return sh('cat; exit 4', {input = 'x', env = {}})") == {
            "code": 4,
            "stdout": "x",
            "stderr": "",
            "timedOut": False,
        }
        assert await at.run(here, "local r = sh('sleep 60', {timeoutMs = 100}) return {r.code == alc.null, r.timedOut}") == [
            True,
            True,
        ]
        refused = "local ok, e = pcall(exec.spawn, '/bin/ls') return e.code"
        assert await at.run(here, refused) == "PROGRAM_NOT_ALLOWED"


def _look(look: Callable[[], bool]) -> Callable[[], Any]:
    async def looked() -> bool:
        return look()

    return looked


DIES = """
import asyncio, sys
from holdfast import Capability, Holdfast, Settings, Worktree
async def main():
    async with Holdfast.open(sys.argv[1], settings=Settings(lease_ms=300)) as hf:
        await hf.templates.create("t", capabilities=[Capability("module", "exec", True, {"programs": ["/bin/sh"]})])
        made = await hf.sessions.create("t", worktree=Worktree("workspace", "deadbeef", sys.argv[2]))
        await hf.executions.run(made.id, sys.argv[3])
asyncio.run(main())
"""


@pytest.mark.parametrize("function", ["run", "spawn"])
@scene
async def test_a_program_that_was_interrupted_is_not_run_again(tree: Path, tmp_path: Path, function: str) -> None:
    """The daemon is killed while it runs, by the program itself. That is the end of the program, and of all that came of it."""
    source = """
        const exec = require('exec'), r = [], attempt = async f => { try { r.push(await f()) } catch (e) { r.push(e.code) } };
        const kill = 'read supervisor name state daemon rest < /proc/$PPID/stat; kill -9 $daemon';
        await attempt(() => exec.FUNCTION('/bin/sh', ['-c', AWAY + 'echo ran >> world; ' + kill + '; sleep 60']));
        await attempt(() => exec.run('/bin/sh', ['-c', 'echo again >> world']));
        r
    """.replace("FUNCTION", function).replace("AWAY", f"`{AWAY}`")
    address = f"sqlite:///{tmp_path}/work.db"
    command = [sys.executable, "-c", DIES, address, str(tree), source]
    died = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    async with opened(address, settings=Settings(lease_ms=300)) as hf:
        execution = (await hf.executions.list(limit=1)).items[0]
        turn = await hf.executions.wait(execution.id, timeout=20)
        assert value(turn) == ["EFFECT_UNCERTAIN", ""]
        assert len(pids(tree / "pids")) == 3
        await eventually(_look(partial(are_gone, tree / "pids")))
    assert (tree / "world").read_text().split() == ["ran", "again"]

"""Sessions with a worktree: files of it run by their path, at the start and later, and nothing outside it can be reached."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast import EffectKind, Function, Holdfast, Settings, StartupFile, Worktree
from tests.acceptance.scenes import elsewhere, evaluate, opened, refused, scene, session, template, value


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (tmp_path / "secret.js").write_text("'secret'")
    return folder


def write(tree: Path, **files: str) -> None:
    for name, text in files.items():
        (tree / f"{name}.js").write_text(text)


def at(tree: Path) -> Worktree:
    return Worktree("workspace 1", "commit 7", str(tree))


async def with_startup(hf: Holdfast, *paths: str | tuple[str, int], **options: Any) -> None:
    await template(hf, name="t", **options)
    for path in paths:
        name, index = (path, 0) if isinstance(path, str) else path
        await hf.templates.add_startup("t", name, order_index=index)


async def startups(hf: Holdfast, session_id: Any) -> list[tuple[str | None, str]]:
    """The startup files of a session that ran, in their order."""
    found = (await hf.executions.list(session_id)).items[::-1]
    return [(each.path, each.status.value) for each in found if each.kind == "startup"]


# ---- sessions


@scene
async def test_a_session_keeps_its_worktree(everywhere: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree.parent / "link").symlink_to(tree)
    monkeypatch.chdir(tree.parent)
    real = Worktree("workspace 1", "commit 7", os.path.realpath(tree))
    async with opened(everywhere) as hf:
        await template(hf, name="t")
        for path in (str(tree), "link", "link/../tree/."):
            session = await hf.sessions.create("t", worktree=Worktree("workspace 1", "commit 7", path))
            assert session.worktree == real == (await hf.sessions.get(session.id)).worktree
        assert (await hf.sessions.create("t")).worktree is None
        await hf.executions.run(session.id, "1")
        fork = await hf.sessions.fork(session.id)
        assert fork.worktree == real == (await hf.sessions.get(fork.id)).worktree


@scene
async def test_a_worktree_must_be_a_folder_that_is_there(tree: Path) -> None:
    write(tree, file="1")
    async with opened("memory:") as hf:
        await template(hf, name="t")
        for path in (tree / "nothing", tree / "file.js"):
            with refused("WORKTREE_NOT_FOUND") as raised:
                await hf.sessions.create("t", worktree=at(path))
            assert str(tree) not in str(raised.error)
            assert raised.error.details.keys() == {"template_id"}
        for wrong in (Worktree("", "c", str(tree)), Worktree("w", " ", str(tree)), Worktree("w", "c", ""), ("w", "c", "/")):
            with refused("VALIDATION_ERROR"):
                await hf.sessions.create("t", worktree=wrong)
        with refused("TEMPLATE_NOT_FOUND"):
            await hf.sessions.create("nobody", worktree=at(tree / "nothing"))
        assert (await hf.sessions.list()).items == []


# ---- files by their path


@scene
async def test_a_file_of_the_worktree_runs(address: str, tree: Path) -> None:
    write(tree, calc="console.log('hello'); __ARGS__.a + 1")
    (tree / "link.js").symlink_to("calc.js")
    async with opened(address) as hf:
        await template(hf, name="t")
        session = await hf.sessions.create("t", worktree=at(tree))
        for path in ("calc.js", "./x/../calc.js", "link.js"):
            turn = await hf.executions.run_path(session.id, path, {"a": 41}, {"stage": ["test"]})
            assert value(turn) == 42
            execution = await hf.executions.get(turn.execution.id)
            assert (execution.kind, execution.path, execution.input) == ("run_file", "calc.js", (tree / "calc.js").read_text())
            assert (execution.args, execution.env) == ({"a": 41}, {"stage": ["test"]})
        events = await hf.executions.events(execution.id)
        assert [event.type for event in events if event.type != "checkpoint"] == ["console", "value"]
        write(tree, calc="typeof __ARGS__ + __ARGS__")
        turn = await hf.executions.run_path(session.id, "calc.js")
        assert value(turn) == "objectnull"  # as it is now
        assert (turn.execution.args, turn.execution.env) == (None, None)


@scene
async def test_what_a_path_must_not_do(tree: Path) -> None:
    (tree / "out.js").symlink_to("../secret.js")
    (tree / "folder").mkdir()
    async with opened("memory:") as hf:
        await template(hf, name="t")
        session = await hf.sessions.create("t", worktree=at(tree))
        wrong = {
            "INVALID_PATH": ["../etc/passwd", "/etc/passwd", "out.js", "folder", "a\0", "folder/../../secret.js"],
            "FILE_NOT_FOUND": ["", ".", "  ", "nothing.js", "folder/nothing.js"],
        }
        for code, paths in wrong.items():
            for path in paths:
                with refused(code) as raised:
                    await hf.executions.run_path(session.id, path)
                assert str(tree) not in str(raised.error)
        for args, env in (([1], None), (None, "x"), ({1: 2}, None), (None, {"a": {1, 2}})):
            with refused("VALIDATION_ERROR"):
                await hf.executions.run_path(session.id, "a.js", args, env)
        with refused("VALIDATION_ERROR"):
            await hf.executions.run_file(session.id, "1", "a.js", None, [1])
        assert (await hf.executions.list(session.id)).items == []
        assert await evaluate(hf, session.id, "1 + 1") == 2  # none of it did any harm
        plain = await hf.sessions.create("t")
        with refused("INVALID_PATH"):
            await hf.executions.run_path(plain.id, "a.js")
        await hf.sessions.close(session.id)
        with refused("SESSION_NOT_READY"):
            await hf.executions.run_path(session.id, "nothing.js")


@scene
async def test_a_path_waits_keeps_its_key_and_runs_in_the_background(tree: Path, sqlite: str) -> None:
    write(tree, asks="await ask('who?')", next="'next'")
    async with opened(sqlite) as hf:
        await template(hf, name="t")
        session = await hf.sessions.create("t", worktree=at(tree))
        turn = await hf.executions.run_path(session.id, "asks.js", idempotency_key="k")
        with refused("SESSION_BUSY"):
            await hf.executions.run_path(session.id, "next.js")
        again = await hf.executions.run_path(session.id, "asks.js", idempotency_key="k")
        assert again.execution.id == turn.execution.id
        shutil.rmtree(tree)
        again = await hf.executions.run_path(session.id, "asks.js", idempotency_key="k")  # the file is not needed for that
        assert again.execution.id == turn.execution.id
        for other in ({"env": {"a": 1}}, {"args": {"a": 1}}, {"path": "next.js"}):
            with refused("IDEMPOTENCY_CONFLICT"):
                await hf.executions.run_path(session.id, **{"path": "asks.js", **other}, idempotency_key="k")
        assert value(await hf.queries.answer(session.id, "Ada")) == "Ada"
        with refused("WORKTREE_NOT_FOUND"):
            await hf.executions.run_path(session.id, "asks.js")
        tree.mkdir()
        write(tree, next="'next'")
        turn = await hf.executions.run_path(session.id, "next.js", background=True)
        assert value(await hf.executions.wait(turn.execution.id, 10)) == "next"


@scene
async def test_a_fork_in_the_middle_of_a_file_keeps_what_it_was_given(tree: Path) -> None:
    write(tree, asks="await ask('who?')")
    async with opened("memory:") as hf:
        await template(hf, name="t")
        session = await hf.sessions.create("t", worktree=at(tree))
        await hf.executions.run_path(session.id, "asks.js", {"a": 1}, {"b": 2})
        fork = await hf.sessions.fork(session.id)
        execution = (await hf.executions.list(fork.id)).items[0]
        assert (execution.path, execution.args, execution.env) == ("asks.js", {"a": 1}, {"b": 2})


# ---- startup files


@scene
async def test_startup_files_of_the_worktree_run_in_their_order(address: str, tree: Path) -> None:
    for name in "abcd":
        write(tree, **{name: f"trail.push('{name}')"})
    async with opened(address) as hf:
        own = [StartupFile("own.js", "var trail = ['own']", "session")]
        await with_startup(hf, ("c.js", 5), ("a.js", 5), ("d.js", -1), "b.js", startup=own)
        session = await hf.sessions.create("t", worktree=at(tree))
        assert session.state == "ready"
        assert await startups(hf, session.id) == [(f"{name}.js", "ok") for name in ("own", "d", "b", "c", "a")]
        assert await evaluate(hf, session.id, "trail.join()") == "own,d,b,c,a"
        write(tree, b="trail.push('new')")
        later = await hf.sessions.create("t", worktree=at(tree))
        assert await evaluate(hf, later.id, "trail.join()") == "own,d,new,c,a"
        assert await evaluate(hf, session.id, "trail.join()") == "own,d,b,c,a"
        fork = await hf.sessions.fork(session.id, 2)  # after d.js: the rest follows, as it is now
        assert await evaluate(hf, fork.id, "trail.join()") == "own,d,new,c,a"


@scene
async def test_a_session_without_a_worktree_cannot_run_its_files(tree: Path) -> None:
    async with opened("memory:") as hf:
        await with_startup(hf, "a.js")
        with refused("STARTUP_FAILED") as raised:
            await hf.sessions.create("t")
        assert raised.error.details.keys() == {"template_id"}
        assert (await hf.sessions.list()).items == []
        assert (await hf.sessions.create("t", version=1)).state == "ready"


@pytest.mark.parametrize(
    ("path", "code"), [("nothing.js", "FILE_NOT_FOUND"), ("out.js", "INVALID_PATH"), ("dir", "INVALID_PATH")]
)
@scene
async def test_a_startup_file_that_cannot_be_read_crashes_the_session(sqlite: str, tree: Path, path: str, code: str) -> None:
    write(tree, first="var first = 1")
    (tree / "out.js").symlink_to("../secret.js")
    (tree / "dir").mkdir()
    async with opened(sqlite) as hf:
        await with_startup(hf, "first.js", path)
        told = []
        for _ in range(2):
            with refused(code) as raised:
                await hf.sessions.create("t", worktree=at(tree), name="lost", idempotency_key="k")
            told.append((str(raised.error), raised.error.details))
        assert told[0] == told[1]
        assert path in told[0][0]
        assert str(tree) not in told[0][0]
        session = await hf.sessions.get(told[0][1]["session_id"])
        assert (session.state, session.last_error, session.name) == ("crashed", told[0][0], "lost")
        assert await startups(hf, session.id) == [("first.js", "ok")]
        entry = (await hf.sessions.errors(session.id)).items[-1]
        assert (entry.kind, entry.phase, entry.execution_id) == (code, "starting", None)
        with refused("SESSION_NOT_READY"):
            await hf.executions.run(session.id, "1")
        # When the tree is in order the session can begin anew.
        if path == "nothing.js":
            write(tree, nothing="first + 1")
            assert (await hf.sessions.rewind(session.id, 0)).state == "ready"
            assert await startups(hf, session.id) == [("first.js", "ok"), ("first.js", "ok"), ("nothing.js", "ok")]
            again = await hf.sessions.create("t", worktree=at(tree), name="lost", idempotency_key="k")
            assert again.id == session.id


@scene
async def test_a_startup_file_that_raises_crashes_the_session(tree: Path) -> None:
    write(tree, bad="throw new Error('bad day')", never="1")
    async with opened("memory:") as hf:
        await with_startup(hf, "bad.js", "never.js")
        session = await hf.sessions.create("t", worktree=at(tree))
        assert (session.state, session.last_error) == ("crashed", "bad day")
        assert await startups(hf, session.id) == [("bad.js", "error")]


@scene
async def test_a_startup_file_that_waits_is_followed_by_the_next_when_it_is_answered(tree: Path, sqlite: str) -> None:
    write(tree, asks="var who = await ask('who?')")
    async with opened(sqlite) as hf:
        await with_startup(hf, "asks.js", "next.js")
        session = await hf.sessions.create("t", worktree=at(tree))
        assert session.state == "paused"
    write(tree, next="var greeting = 'hello ' + who")
    async with opened(sqlite) as hf:
        await hf.queries.answer(session.id, "Ada")
        ended = await hf.sessions._made(session.id)
        assert ended.state == "ready"
        assert await evaluate(hf, session.id, "greeting") == "hello Ada"


DIES = """
async def main_(address, given):
    function = Function("world.touch", touch, EffectKind[given["kind"]])
    async with opened(address, functions=[function], settings=Settings(lease_ms=200)) as hf:
        await hf.templates.create("t", capabilities=[Capability("function", "world.touch")])
        for path in ("a.js", "b.js", "c.js"):
            await hf.templates.add_startup("t", path)
        await hf.sessions.create("t", worktree=Worktree("w", "c", given["tree"]))

def touch():
    os._exit(9)

return await main_(address, given)
"""


@pytest.mark.parametrize(("address", "kind"), [("postgres", "IDEMPOTENT"), ("sqlite", "ONCE")], indirect=["address"])
@scene
async def test_startup_files_go_on_where_a_process_was_killed(address: str, tree: Path, kind: str) -> None:
    touch = "try { require('world').touch() } catch (e) { trail.push(e.code) }"
    write(tree, a="var trail = ['a']", b=f"{touch}; trail.push('b')", c="trail.push('c')")
    elsewhere(address, DIES, {"kind": kind, "tree": str(tree)}, dies=True)
    write(tree, a="trail.push('a again')", b="trail.push('new b')", c="trail.push('new c')")
    functions = [Function("world.touch", lambda: None, EffectKind[kind])]
    async with opened(address, functions=functions, settings=Settings(lease_ms=200)) as hf:
        found = (await hf.sessions.list()).items[0]
        session = await hf.sessions._made(found.id)
        assert session.state == "ready", session.last_error
        # A step that was known to run is run again as it was, with the text that it had.
        expected = "a,EFFECT_UNCERTAIN,b,new c" if kind == "ONCE" else "a,b,new c"
        assert await evaluate(hf, session.id, "trail.join()") == expected
        assert await startups(hf, session.id) == [("a.js", "ok"), ("b.js", "ok"), ("c.js", "ok")]
        assert (await hf.summary())["interrupted"] == 0


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("javascript", "[__ARGS__ && __ARGS__.a, __ENV__.mode]"),
        ("javascript", "export default 1; globalThis.seen = [__ARGS__ && __ARGS__.a, __ENV__.mode]"),
        ("lua", "return {__ARGS__ and __ARGS__.a or false, __ENV__.mode}"),
    ],
)
@scene
async def test_a_file_sees_its_environment(language: str, source: str) -> None:
    async with opened("memory:") as hf:
        here = await session(hf, language)
        for args, seen in (({"a": 1}, 1), (None, None)):
            turn = await hf.executions.run_file(here, source, "main", args, {"mode": "test"})
            assert turn.execution.error is None
            if "export" in source:
                turn = await hf.executions.run(here, "seen")
            assert value(turn) == [False if language == "lua" and seen is None else seen, "test"]
            assert (turn.execution.env or {"mode": "test"}) == {"mode": "test"}

"""Templates are edited part by part; each edit is a version, none is lost, and sessions keep the one they began with."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast import Capability, Holdfast, HoldfastError, LibraryCache, SourceFile, StartupFile
from holdfast.domain import TemplateSpec, VersionConflict
from tests.acceptance.scenes import dies_before_it_replies, elsewhere, evaluate, opened, refused, scene, template

LODASH = "globalThis._ = {chunk: (list, n) => [list.slice(0, n), list.slice(n)]}"


async def spec(hf: Holdfast, name: str = "t") -> TemplateSpec:
    return (await hf.templates.version(name)).spec


async def latest(hf: Holdfast, name: str = "t") -> int:
    return (await hf.templates.get(name)).latest


def library(folder: Path, text: str = LODASH) -> None:
    (folder / "lodash-4.17.21.js").write_text(text)


# ---- parts


@scene
async def test_capabilities_are_added_and_removed() -> None:
    async with opened("memory:") as hf:
        await template(hf, name="t", capabilities=[Capability("module", "console")])
        first = (await spec(hf)).capabilities[0]
        added = await hf.templates.add_capability("t", " module ", "fs", enabled=True, config={"write": True})
        assert added == Capability("module", "fs", True, {"write": True}, added.id, by_operator=True)
        assert (await spec(hf)).capabilities == (first, added)
        assert len({first.id, added.id, ""}) == 3
        with refused("CAPABILITY_EXISTS"):
            await hf.templates.add_capability("t", "module", "fs")
        assert (await hf.templates.add_capability("t", "module", "exec")).enabled is False
        assert await latest(hf) == 3
        await hf.templates.remove_capability("t", added.id)
        with refused("CAPABILITY_NOT_FOUND"):
            await hf.templates.remove_capability("t", added.id)
        assert [known.name for known in (await spec(hf)).capabilities] == ["console", "exec"]
        assert (await spec(hf)).capabilities[0] == first  # parts that stay keep their ids


@scene
async def test_modules_and_libraries_may_be_added_twice() -> None:
    async with opened("memory:") as hf:
        await template(hf, name="t")
        for _ in range(2):
            assert await hf.templates.add_module("t", " FS ") == "fs"
            assert await hf.templates.add_library("t", " lodash-4.17.21 ") == "lodash-4.17.21"
        assert (await spec(hf)).exposed == ("fs",)
        assert (await spec(hf)).packages == ("lodash-4.17.21",)
        assert await latest(hf) == 3
        for _ in range(2):
            await hf.templates.remove_module("t", "fs")
            await hf.templates.remove_library("t", "lodash-4.17.21")
        assert (await spec(hf)).exposed == () == (await spec(hf)).packages
        assert await latest(hf) == 5


@scene
async def test_startup_files_are_added_by_their_clean_path() -> None:
    async with opened("memory:") as hf:
        await template(hf, name="t", startup=[StartupFile("own.js", "1", "session")])
        added = await hf.templates.add_startup("t", "runtime/../runtime/startup.js", order_index=10, mode=" EVAL ")
        assert (added.path, added.order_index, added.mode) == ("runtime/startup.js", 10, "eval")
        for path in ("runtime/startup.js", "./runtime//startup.js", "own.js"):
            with refused("STARTUP_FILE_EXISTS"):
                await hf.templates.add_startup("t", path)
        for path in ("", ".", "../outside.js", "/etc/passwd", "a/../..", "a\0"):
            with refused("INVALID_PATH"):
                await hf.templates.add_startup("t", path)
        with refused("STARTUP_MODE_UNSUPPORTED") as raised:
            await hf.templates.add_startup("t", "a.js", mode="import")
        assert raised.error.details == {"requested_mode": "import", "supported_modes": ["eval"]}
        assert (await spec(hf)).files == (added,)
        await hf.templates.remove_startup("t", added.id)
        with refused("STARTUP_NOT_FOUND"):
            await hf.templates.remove_startup("t", added.id)
        assert await latest(hf) == 3


@scene
async def test_settings_are_changed_one_by_one() -> None:
    async with opened("memory:") as hf:
        await template(hf, name="t")
        made = await hf.templates.set("t", limits={"wall_ms": 77}, resolver={"roots": ["src"]}, runtime={"esm": False})
        assert made.latest == 2
        await hf.templates.set("t", limits={"cpu_ms": 55})
        found = await spec(hf)
        assert (found.limits.wall_ms, found.limits.cpu_ms, found.limits.mem_mb) == (77, 55, 128)
        assert found.resolver == {"roots": ["src"], "extensions": [".js", ".mjs"], "allow_absolute_repo_imports": True}
        assert found.runtime == {"esm": False, "strict": True, "console": True}
        assert (await hf.templates.set("t", limits={"cpu_ms": 55})).latest == 3  # nothing has changed


@pytest.mark.parametrize(
    "wrong",
    [
        {"limits": {"nothing": 1}},
        {"limits": {"wall_ms": -1}},
        {"limits": {"wall_ms": None}},
        {"limits": [1]},
        {"resolver": {"root": ["."]}},
        {"resolver": {"roots": "."}},
        {"resolver": {"roots": []}},
        {"resolver": {"extensions": ["js"]}},
        {"resolver": {"allow_absolute_repo_imports": 1}},
        {"runtime": {"esm": "yes"}},
        {"runtime": {"jit": True}},
        {"active": 1},
        {"name": " "},
        {"name": str(uuid4())},
    ],
)
@scene
async def test_senseless_settings_change_nothing(wrong: dict[str, Any]) -> None:
    async with opened("memory:") as hf:
        await template(hf, name="t")
        before = await hf.templates.get("t")
        with refused("VALIDATION_ERROR"):
            await hf.templates.set("t", **{"name": "other"} | wrong)
        assert await hf.templates.get("t") == before


@scene
async def test_a_template_gets_another_name(everywhere: str) -> None:
    async with opened(everywhere) as hf:
        await template(hf, name="t")
        await template(hf, name="taken")
        session = await hf.sessions.create("t")
        with refused("NAME_TAKEN"):
            await hf.templates.set("t", name="taken", active=False)
        assert (await spec(hf)).active
        renamed = await hf.templates.set("t", name="other")
        assert (renamed.name, renamed.latest) == ("other", 1)
        with refused("TEMPLATE_NOT_FOUND"):
            await hf.templates.get("t")
        assert await evaluate(hf, session.id, "1 + 1") == 2


@scene
async def test_no_session_is_made_of_a_template_that_is_not_active() -> None:
    async with opened("memory:") as hf:
        await template(hf, name="t")
        before = await hf.sessions.create("t")
        await hf.templates.set("t", active=False)
        for version in (None, 1, 2):
            with refused("TEMPLATE_INACTIVE"):
                await hf.sessions.create("t", version=version)
        assert await evaluate(hf, before.id, "1 + 1") == 2
        await hf.templates.set("t", active=True)
        assert (await hf.sessions.create("t")).template_version == 3


@scene
async def test_a_clone_is_a_template_of_its_own() -> None:
    async with opened("memory:") as hf:
        await template(hf, name="t", libraries=[SourceFile("a.js", "var a = 7")])
        capability = await hf.templates.add_capability("t", "module", "console")
        startup = await hf.templates.add_startup("t", "s.js")
        clone = await hf.templates.clone("t", "twin")
        found = await spec(hf, "twin")
        assert clone.latest == 1
        assert found.capabilities[0].id != capability.id  # ids belong to one template
        assert found.files[0].id != startup.id
        await hf.templates.remove_startup("twin", found.files[0].id)
        assert await evaluate(hf, (await hf.sessions.create("twin")).id, "a") == 7
        assert len((await spec(hf)).files) == 1
        with refused("NAME_TAKEN"):
            await hf.templates.clone("t", "twin")
        with refused("TEMPLATE_NOT_FOUND"):
            await hf.templates.clone("nobody", "other")


# ---- edits at once, and again


@scene
async def test_edits_at_once_are_all_kept(everywhere: str) -> None:
    async with opened(everywhere) as hf:
        await template(hf, name="t")
        await asyncio.gather(
            *[hf.templates.add_capability("t", "module", name) for name in ("console", "fs", "exec", "database")],
            *[hf.templates.add_startup("t", f"s{number}.js", idempotency_key=f"key {number}") for number in range(4)],
            *[hf.templates.add_library("t", f"lib-{number}.0", idempotency_key=f"lib {number}") for number in range(4)],
            hf.templates.set("t", limits={"wall_ms": 7}),
        )
        found = await spec(hf)
        assert {c.name for c in found.capabilities} == {"console", "fs", "exec", "database"}
        assert {file.path for file in found.files} == {f"s{number}.js" for number in range(4)}
        assert (len(found.packages), found.limits.wall_ms) == (4, 7)
        assert await latest(hf) == 14


@scene
async def test_two_processes_that_edit_at_once_lose_nothing(sqlite: str) -> None:
    async with opened(sqlite) as hf:
        await template(hf, name="t")
        body = """
        async with opened(address) as hf:
            for number in range(5):
                await hf.templates.add_startup("t", f"theirs/{number}.js", idempotency_key=f"theirs {number}")
        """
        other = asyncio.create_task(asyncio.to_thread(elsewhere, sqlite, body))
        number = 0
        while not other.done():
            await hf.templates.add_startup("t", f"ours/{number}.js")
            number += 1
            await asyncio.sleep(0.005)
        await other
        whose = [file.path.partition("/")[0] for file in (await spec(hf)).files]
        assert (whose.count("theirs"), whose.count("ours")) == (5, number)


@scene
async def test_of_the_same_capability_added_at_once_one_is_added() -> None:
    async with opened("memory:") as hf:
        await template(hf, name="t")
        adding = [hf.templates.add_capability("t", "module", "console") for _ in range(6)]
        came = await asyncio.gather(*adding, return_exceptions=True)
        assert sorted(getattr(each, "code", "added") for each in came) == ["CAPABILITY_EXISTS"] * 5 + ["added"]
        assert await latest(hf) == 2


EDITS: dict[str, Callable[[Holdfast], Awaitable[Any]]] = {
    "add_capability": lambda hf: hf.templates.add_capability("t", "module", "fs", idempotency_key="k"),
    "remove_capability": lambda hf: _remove(hf, "capability"),
    "add_startup": lambda hf: hf.templates.add_startup("t", "x.js", idempotency_key="k"),
    "remove_startup": lambda hf: _remove(hf, "startup"),
    "add_module": lambda hf: hf.templates.add_module("t", "exec", idempotency_key="k"),
    "add_library": lambda hf: hf.templates.add_library("t", "moment", idempotency_key="k"),
    "set": lambda hf: hf.templates.set("t", name="u", limits={"wall_ms": 9}, idempotency_key="k"),
    "clone": lambda hf: hf.templates.clone("t", "twin", idempotency_key="k"),
}
_PARTS: dict[str, str] = {}


async def _remove(hf: Holdfast, kind: str) -> None:
    remove = {"capability": hf.templates.remove_capability, "startup": hf.templates.remove_startup}[kind]
    await remove("t", _PARTS[kind], idempotency_key="k")


@pytest.mark.parametrize("name", EDITS)
@scene
async def test_an_edit_with_a_key_happens_once_also_if_its_process_died_before_the_reply(
    name: str, monkeypatch: pytest.MonkeyPatch, sqlite: str
) -> None:
    with monkeypatch.context() as patch:
        async with opened(sqlite) as hf:
            await template(hf, name="t")
            _PARTS["capability"] = (await hf.templates.add_capability("t", "module", "console")).id
            _PARTS["startup"] = (await hf.templates.add_startup("t", "old.js")).id
            before = await spec(hf)
            dies_before_it_replies(patch, hf._address)
            with pytest.raises(HoldfastError):
                await EDITS[name](hf)
    async with opened(sqlite) as hf:
        found = (await hf.templates.list()).items
        done = [await spec(hf, each.name) for each in found]
        assert done != [before]  # it has happened
        if name != "set":
            await hf.templates.add_module("t", "database")  # others go on
        first = await EDITS[name](hf)
        again = await EDITS[name](hf)
        assert again == first
        if name == "set":
            assert (first.name, first.latest) == ("u", 4)
        elif name == "clone":
            assert {each.name for each in (await hf.templates.list()).items} == {"t", "twin"}
        else:
            assert await latest(hf) == 5
        with refused("IDEMPOTENCY_CONFLICT"):
            await hf.templates.add_capability("t", "module", "exec", idempotency_key="k")


@scene
async def test_a_key_whose_edit_was_refused_may_be_tried_again() -> None:
    async with opened("memory:") as hf:
        await template(hf, name="t")
        known = await hf.templates.add_capability("t", "module", "fs")
        with refused("CAPABILITY_EXISTS"):
            await hf.templates.add_capability("t", "module", "fs", idempotency_key="k")
        await hf.templates.remove_capability("t", known.id)
        assert (await hf.templates.add_capability("t", "module", "fs", idempotency_key="k")).name == "fs"


@scene
async def test_a_template_that_is_not_there_is_not_found() -> None:
    async with opened("memory:") as hf:
        for edit in EDITS.values():
            _PARTS.update(capability=str(uuid4()), startup=str(uuid4()))
            with refused("TEMPLATE_NOT_FOUND"):
                await edit(hf)


@scene
async def test_nonsense_is_refused_before_anything_is_done() -> None:
    async with opened("memory:") as hf:
        await template(hf, name="t")
        t, wrong = hf.templates, "VALIDATION_ERROR"
        calls = [
            (lambda: t.add_capability("t", "", "x"), wrong),
            (lambda: t.add_capability("t", "x", 7), wrong),
            (lambda: t.add_capability("t", "module", "fs", enabled="no"), wrong),
            (lambda: t.add_capability("t", "module", "fs", config=[1]), wrong),
            (lambda: t.remove_capability("t", "x"), wrong),
            (lambda: t.remove_startup("t", 7), wrong),
            (lambda: t.add_startup("t", "a.js", order_index="1"), wrong),
            (lambda: t.add_startup("t", "a.js", mode=None), "STARTUP_MODE_UNSUPPORTED"),
            (lambda: t.add_module("t", "json"), "MODULE_NOT_ALLOWED"),
            (lambda: t.remove_module("t", ""), wrong),
            (lambda: t.add_library("t", "../../x"), "LIBRARY_UNKNOWN"),
            (lambda: t.remove_library("t", None), wrong),
            (lambda: t.clone("t", ""), wrong),
        ]
        for call, code in calls:
            with refused(code):
                await call()
        assert await latest(hf) == 1


# ---- libraries


@scene
async def test_a_library_of_the_cache_is_loaded_before_all_else(tmp_path: Path) -> None:
    library(tmp_path)
    async with opened("memory:", libraries=LibraryCache(tmp_path)) as hf:
        await template(hf, name="t")
        await hf.templates.add_library("t", "lodash-4.17.21")
        await hf.templates.add_library("t", "lodash")  # the same one, by another name: it is loaded once
        await hf.templates.update("t", libraries=[SourceFile("own.js", "var pairs = _.chunk([1, 2, 3, 4], 2)")])
        session = await hf.sessions.create("t")
        assert await evaluate(hf, session.id, "pairs.length + _.chunk([1], 1).length") == 4
        old = await hf.sessions.create("t", version=1)
        assert await evaluate(hf, old.id, "typeof _") == "undefined"


@scene
async def test_a_library_may_be_added_before_it_is_in_the_cache(tmp_path: Path, durable: str) -> None:
    async with opened(durable, libraries=LibraryCache(tmp_path)) as hf:
        await template(hf, name="t")
        await hf.templates.add_library("t", "lodash-4.17.21")
        with refused("LIBRARY_NOT_CACHED") as raised:
            await hf.sessions.create("t", name="lost")
        assert raised.error.details.keys() == {"template_id", "session_id"}
        assert "failed to load libraries" in str(raised.error)
        lost = await hf.sessions.get(raised.error.details["session_id"])
        assert (lost.state, lost.name, lost.template_version) == ("crashed", "lost", 2)
        assert "failed to load libraries" in (lost.last_error or "")
        entry = (await hf.sessions.errors(lost.id)).items[0]
        assert (entry.kind, entry.phase) == ("LIBRARY_NOT_CACHED", "starting")

        library(tmp_path)
        session = await hf.sessions.create("t")
        assert session.template_version == 3  # the same, baked
        assert await evaluate(hf, session.id, "_.chunk([1, 2, 3], 2).length") == 2
        assert (await hf.sessions.create("t")).template_version == 3
        assert (await hf.sessions.create("t", version=2)).template_version == 3

        # What could not start can be looked at, closed and deleted, and nothing else.
        for call in (hf.sessions.fork(lost.id), hf.sessions.rewind(lost.id, 0)):
            with refused("LIBRARY_NOT_CACHED"):
                await call
        with refused("SESSION_NOT_READY"):
            await hf.executions.run(lost.id, "1")
        assert (await hf.sessions.close(lost.id)).state == "closed"
        await hf.sessions.delete(lost.id)


@scene
async def test_sessions_made_at_once_of_an_unbaked_template_share_one_version(tmp_path: Path, durable: str) -> None:
    async with opened(durable, libraries=LibraryCache(tmp_path)) as hf:
        await template(hf, name="t")
        await hf.templates.add_library("t", "lodash")
        library(tmp_path)
        made = await asyncio.gather(*[hf.sessions.create("t") for _ in range(3)])
        assert {session.template_version for session in made} == {3}
        assert await latest(hf) == 3


@scene
async def test_what_can_never_be_kept_is_not_baked_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened("memory:", libraries=LibraryCache(tmp_path)) as hf:
        await template(hf, name="t")
        await hf.templates.add_library("t", "lodash")
        library(tmp_path)

        def never(*_: Any) -> None:
            raise VersionConflict

        monkeypatch.setattr(hf._address, "add_version", never)
        with refused("VERSION_CONFLICT"):
            await hf.sessions.create("t")
        assert (await hf.sessions.list()).items == []


@scene
async def test_an_old_version_that_was_never_baked_stays_so(tmp_path: Path) -> None:
    async with opened("memory:", libraries=LibraryCache(tmp_path)) as hf:
        await template(hf, name="t")
        await hf.templates.add_library("t", "lodash")
        await hf.templates.remove_library("t", "lodash")
        library(tmp_path)
        with refused("LIBRARY_NOT_CACHED"):
            await hf.sessions.create("t", version=2)
        assert (await hf.sessions.create("t")).state == "ready"
        assert await latest(hf) == 3  # no old spec became the latest


@scene
async def test_a_missing_library_is_told_again_to_whoever_asks_with_the_same_key(tmp_path: Path) -> None:
    async with opened("memory:", libraries=LibraryCache(tmp_path)) as hf:
        await template(hf, name="t")
        await hf.templates.add_library("t", "lodash")
        told = []
        for _ in range(2):
            with refused("LIBRARY_NOT_CACHED") as raised:
                await hf.sessions.create("t", idempotency_key="k")
            told.append((str(raised.error), raised.error.details))
            library(tmp_path)
        assert told[0] == told[1]
        assert len((await hf.sessions.list()).items) == 1


@scene
async def test_a_library_that_does_not_load_is_refused_where_it_is_noticed(tmp_path: Path) -> None:
    library(tmp_path, "throw new Error('bad day')")
    async with opened("memory:", libraries=LibraryCache(tmp_path)) as hf:
        await template(hf, name="t")
        with refused("LIBRARY_LOAD_FAILED") as raised:
            await hf.templates.add_library("t", "lodash")
        assert "bad day" in str(raised.error)
        assert await latest(hf) == 1
        (tmp_path / "lodash-4.17.21.js").unlink()
        await hf.templates.add_library("t", "lodash")
        library(tmp_path, "throw new Error('bad day')")
        with refused("LIBRARY_LOAD_FAILED") as raised:
            await hf.sessions.create("t")
        crashed = await hf.sessions.get(raised.error.details["session_id"])
        assert (crashed.state, "bad day" in (crashed.last_error or "")) == ("crashed", True)


@scene
async def test_what_does_not_change_the_memory_does_not_need_the_cache_again(tmp_path: Path) -> None:
    library(tmp_path)
    async with opened("memory:", libraries=LibraryCache(tmp_path)) as hf:
        await template(hf, name="t")
        await hf.templates.add_library("t", "lodash")
        (tmp_path / "lodash-4.17.21.js").unlink()
        await hf.templates.add_module("t", "fs")
        await hf.templates.set("t", runtime={"esm": False})
        session = await hf.sessions.create("t")
        assert (session.template_version, await evaluate(hf, session.id, "typeof _")) == (4, "object")


@scene
async def test_lua_has_libraries_too(tmp_path: Path) -> None:
    (tmp_path / "pairs-1.0.js").write_text("not lua")
    (tmp_path / "pairs-1.0.lua").write_text("function both(a, b) return a + b end")
    async with opened("memory:", libraries=LibraryCache(tmp_path)) as hf:
        await template(hf, "lua", "t")
        await hf.templates.add_library("t", "pairs-1.0")
        assert await evaluate(hf, (await hf.sessions.create("t")).id, "return both(3, 4)") == 7

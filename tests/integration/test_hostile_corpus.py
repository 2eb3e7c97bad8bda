"""Scripts that try to get out, in both languages, and proof on the outside that none did.

Each attempt has a session of its own, in one worktree, of a template that grants everything in a narrow form; many have another one of a
template that grants nothing. `tests/hostile` has the attempts, and the world outside.
"""

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Limits, Worktree
from holdfast.capabilities import is_refusal
from holdfast.capabilities.http.module import Http
from tests import postgres
from tests.acceptance.scenes import evaluate, opened, scene
from tests.hostile import javascript, lua
from tests.hostile.attempts import Attempt
from tests.hostile.world import VARIABLE, Trap, World
from tests.web import Web, web

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what happens outside is seen by means of Linux")

CORPUS = {"javascript": javascript, "lua": lua}
LIMITS = Limits(wall_ms=30_000, cpu_ms=5_000, mem_mb=64)
NAMES = {
    "here.test": ["127.0.0.1"],
    "two.inside.test": ["127.0.0.2"],
    "six.inside.test": ["::1"],
    "ten.inside.test": ["10.0.0.1"],
    "cloud.inside.test": ["169.254.169.254"],
    "mapped.inside.test": ["::ffff:127.0.0.1"],
    "mixed.inside.test": ["93.184.216.34", "127.0.0.2"],
    "nat.inside.test": ["64:ff9b::7f00:1"],
    "tunnel.inside.test": ["2002:7f00:1::"],
    "none.inside.test": ["0.0.0.0"],
    "card.inside.test": ["fe80::1%lo"],
    "unique.inside.test": ["fd00::1"],
    "name.inside.test": ["localhost"],
}
SWAP = """
import os, sys
os.chdir(sys.argv[1])
print(flush=True)
while True:
    os.rename("race", "away")
    os.symlink("..", "race")
    os.unlink("race")
    os.rename("away", "race")
"""
RACES = {
    "javascript": "const fs = require('fs'), seen = new Set(); for (let i = 0; i < 150; i++) for (const f of [() => fs.readFileSync('race/secret.txt'), () => (fs.writeFileSync('race/new.txt', 'x'), 'inside'), () => require('./race/secret')]) try { seen.add(f()) } catch (e) { seen.add(e.code) } [...seen].filter(s => !['inside', 'INVALID_PATH', 'FILE_NOT_FOUND', 'MODULE_NOT_FOUND'].includes(s))",
    "lua": "local fs, bad = require('fs'), alc.array({}) for i = 1, 150 do for _, f in ipairs({function() return fs.readFileSync('race/secret.txt') end, function() return require('./race/secret') end}) do local ok, e = pcall(f) local s = ok and e or e.code if s ~= 'inside' and s ~= 'INVALID_PATH' and s ~= 'FILE_NOT_FOUND' and s ~= 'MODULE_NOT_FOUND' then bad[#bad + 1] = s end end end return bad",
}  # fmt: skip


class Corpus:
    """The outside, what is granted of it, and who runs attempts."""

    def __init__(self, world: World, server: Web) -> None:
        self.world, self.server = world, server
        self.canary = Trap("127.0.0.1")
        self.traps = [self.canary, Trap("127.0.0.2", server.port)]
        with contextlib.suppress(OSError):  # not every machine has IPv6
            self.traps += [Trap("::1", server.port), Trap("::1", self.canary.port)]
        root = postgres.fresh_schema()
        schema = root.rpartition("%3D")[2]
        postgres.server().execute(f"CREATE ROLE hostile_{schema} LOGIN PASSWORD '{world.token}'")
        postgres.server().execute(f"GRANT ALL ON SCHEMA {schema} TO hostile_{schema}")
        main = root.replace("postgres@", f"hostile_{schema}:{world.token}@")
        vault = f"postgresql://u:{world.token}@127.0.0.1:1/x"
        rule = {"scheme": "http", "port": server.port}
        paths = ("/open", "/redirect", "/bomb", "/twice")
        self.modules: dict[str, dict[str, Any]] = {
            "fs": {"write": True, "max_bytes": 5 << 30, "max_files": 200, "max_file_bytes": 1 << 20, "roots": {"data": {"folder": str(world.data)}}},
            "exec": {
                "programs": [{"path": "/bin/echo", "args": ["[a-z]+", "[a-z]+", "..."], "env": ["TZ"]}, {"path": "/usr/bin/env", "args": []},
                    {"path": "/bin/ls", "args": ["/proc/self/fd"]}]
            },
            "database": {"files": True, "connections": {name: {"driver": "postgresql", "dsn": dsn} for name, dsn in (("main", main), ("vault", vault))}},
            "http": {
                "allow": [*({**rule, "host": "here.test", "path_prefix": path} for path in paths), {**rule, "host": "*.inside.test"}],
                "private": ["127.0.0.1"],
            },
            "state": {"session": True, "max_keys": 50},
            "env": {"values": {"GREETING": "hello"}},
            "clock": {"max_calls": 100}, "random": {}, "crypto": {},
        }  # fmt: skip

    async def make(self, hf: Holdfast, name: str, language: str, modules: dict[str, Any]) -> None:
        await hf.templates.create(name, language=language, limits=LIMITS)  # type: ignore[arg-type]
        for module, config in modules.items():
            await hf.templates.add_capability(name, "module", module, enabled=True, config=config)

    async def session(self, hf: Holdfast, template: str) -> Any:
        return (await hf.sessions.create(template, worktree=Worktree("workspace", "deadbeef", str(self.world.tree)))).id

    async def run(self, hf: Holdfast, template: str, attempt: Attempt, *, anyhow: bool = False) -> list[str]:
        """What is wrong with how an attempt ended. With `anyhow` it may end in any way but a leak."""
        source = self.world.replace(attempt.source, port=self.server.port, canary=self.canary.port)
        session = await self.session(hf, template)
        turn = await hf.executions.run(session, source)
        execution = turn.execution
        events = [(event.type, event.payload) for event in await hf.executions.events(execution.id)]
        told = [payload.get("code") for kind, payload in events if kind == "system"]
        await hf.sessions.delete(session)
        said = json.dumps([execution.result, execution.error, events], default=str, ensure_ascii=False)
        found = self.world.told(said, source)
        error = execution.error or {}
        if execution.status == "ok":
            outcome = (execution.result or {}).get("json")
        else:
            outcome = error.get("code") or error.get("name") or execution.status
        if not anyhow and not attempt.fits(outcome):
            found.append(f"it ended with {outcome!r}: {error.get('message')}")
        if is_refusal(error.get("code", "")) and error["code"] not in told:
            found.append(f"no event tells of {error['code']}")
        return [f"{template}, {attempt.name}: {problem}" for problem in found]

    def outside(self) -> list[str]:
        """What has happened outside."""
        closed = [
            asked.target for asked in self.server.asked if asked.method != "GET" or "closed" in asked.target.partition("?")[0]
        ]
        caught = [f"somebody connected to trap {at}" for at, trap in enumerate(self.traps) if trap.caught()]
        return [*self.world.touched(), *caught, *(f"the server was asked for {target}" for target in closed)]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Corpus]:
    monkeypatch.setattr(Http, "look_up", staticmethod(lambda host: NAMES[host]))
    postgres.server()
    world = World(tmp_path)
    monkeypatch.setenv(VARIABLE, world.token)
    with web() as server:
        made = Corpus(world, server)
        yield made
        for trap in made.traps:
            trap.close()
    world.close()


@pytest.mark.parametrize("language", CORPUS)
@scene
async def test_no_attempt_gets_out(language: str, corpus: Corpus) -> None:
    table = CORPUS[language]
    assert len(table.ATTEMPTS) >= 150
    assert len({attempt.source for attempt in table.ATTEMPTS}) == len(table.ATTEMPTS)
    corpus.world.begin()
    found: list[str] = []
    async with opened("memory:") as hf:
        await corpus.make(hf, "narrow", language, corpus.modules)
        await corpus.make(hf, "nothing", language, {})
        for attempt in table.ATTEMPTS:
            found += await corpus.run(hf, "narrow", attempt)
        for attempt in (*table.BRIDGE, *table.MODULES):
            found += await corpus.run(hf, "nothing", attempt, anyhow=True)
        for attempt in table.NOTHING:
            found += await corpus.run(hf, "nothing", attempt)
        found += corpus.world.told(str(await hf.templates.policy("narrow")), str(corpus.world.data))
    assert found + corpus.outside() + corpus.world.left_behind() == []


@scene
async def test_no_attempt_gets_out_by_a_race(corpus: Corpus) -> None:
    """A folder becomes a link to the outside and a folder again, as fast as can be, while four sessions use it at once."""
    swap = subprocess.Popen([sys.executable, "-I", "-c", SWAP, str(corpus.world.tree)], stdout=subprocess.PIPE)
    try:
        assert swap.stdout is not None
        swap.stdout.readline()
        async with opened("memory:") as hf:
            for language in CORPUS:
                await corpus.make(hf, language, language, corpus.modules)
            race = [corpus.run(hf, language, Attempt("race", RACES[language], [])) for language in (*CORPUS, *CORPUS)]
            found = await asyncio.gather(*race)
            assert [*itertools.chain(*found), *corpus.outside()] == []
    finally:
        swap.kill()
        swap.communicate()


@scene
async def test_the_runner_notices_what_gets_out(corpus: Corpus) -> None:
    """Grants that are too wide: each attempt succeeds, and each is found."""
    world, port = corpus.world, corpus.canary.port
    wide: dict[str, dict[str, Any]] = {
        **corpus.modules,
        "fs": {"write": True, "roots": {"all": {"folder": str(world.base), "write": True}}},
        "exec": {"programs": ["/bin/sh"]},
        "env": {"names": [VARIABLE]},
        "http": {"allow": [{"host": "127.0.0.1", "scheme": "http", "port": port}], "private": True},
    }
    attempts = [
        (Attempt("a file", "require('fs').readFileSync('@all/secret.txt')", "INVALID_PATH"), "the token is in it"),
        (Attempt("a variable", "require('env').get('HOSTILE_CANARY')", "VARIABLE_NOT_ALLOWED"), "the token is in it"),
        (Attempt("said", "console.log(require('fs').readFileSync('@all/secret.txt'))", None), "the token is in it"),
        (Attempt("raised", "throw new Error(require('env').get('HOSTILE_CANARY'))", "Error"), "the token is in it"),
        (Attempt("a path", "require('exec').run('/bin/sh', ['-c', 'pwd'])", "PROGRAM_NOT_ALLOWED"), "is in it"),
        (Attempt("unlike", "1 + 1", "INVALID_PATH"), "it ended with 2"),
    ]
    async with opened("memory:") as hf:
        await corpus.make(hf, "wide", "javascript", wide)
        for attempt, problem in attempts:
            assert any(problem in found for found in await corpus.run(hf, "wide", attempt)), attempt.name
        assert any("secret.txt was opened" in found for found in corpus.outside())
        await corpus.run(hf, "wide", Attempt("write", "require('fs').writeFileSync('@all/new.txt', 'x')", None))
        assert any("new.txt is another one" in found for found in corpus.outside())
        await corpus.run(
            hf, "wide", Attempt("ask", f"require('http').fetchSync('http://127.0.0.1:{port}/', {{timeoutMs: 1}})", None)
        )
        assert any("trap 0" in found for found in corpus.outside())
        world.begin()
        with (world.base / "secret.txt").open(), subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE):
            assert {found.split()[0] for found in world.left_behind()} == {"descriptor", "process"}


GLOBALS = {
    "javascript": ("globalThis.mine = 'first'; Object.prototype.mine = 'first'; require('state').set('mine', 1)", "[typeof mine, ({}).mine ?? 0, require('state').keys().length, require('state').get('mine', 0)]"),
    "lua": ("mine = 'first' string.mine = 'first' require('state').set('mine', 1)", "return {type(mine), string.mine or 0, #require('state').keys(), require('state').get('mine', 0)}"),
}  # fmt: skip
FOREIGN = {
    "javascript": "const d = require('database'); const codes = []; const at = (f) => {{ try {{ codes.push(f()) }} catch (e) {{ codes.push(e.code) }} }}; at(() => d.query('SELECT * FROM t')); at(() => hf.call('database.query', ['sqlite3', ':memory:', '{token}', ''], 'SELECT * FROM t')); at(() => hf.call('state.read', 'mine', '{session}')); at(() => hf.call('state.read', 'mine', 'session/{session}')); at(() => hf.call('state.read', '../{session}/mine').found); codes",
    "lua": "local d, codes = require('database'), {{}} local function at(f, ...) local ok, e = pcall(f, ...) if not ok then e = e.code end codes[#codes + 1] = e end at(d.query, 'SELECT * FROM t') at(alc.call, 'database.query', {{'sqlite3', ':memory:', '{token}', ''}}, 'SELECT * FROM t') at(alc.call, 'state.read', 'mine', '{session}') at(alc.call, 'state.read', 'mine', 'session/{session}') at(function() return alc.call('state.read', '../{session}/mine').found end) return codes",
}  # fmt: skip
MAKE = {
    "javascript": "var token = hf.call('database.configure', 'sqlite3', ':memory:'); hf.call('database.execHeld', ['sqlite3', ':memory:', token, ''], 'CREATE TABLE t(x)'); token",
    "lua": "token = alc.call('database.configure', 'sqlite3', ':memory:') alc.call('database.execHeld', {'sqlite3', ':memory:', token, ''}, 'CREATE TABLE t(x)') return token",
}  # fmt: skip


@pytest.mark.parametrize("language", CORPUS)
@scene
async def test_two_sessions_of_one_template_do_not_see_each_other(language: str, corpus: Corpus) -> None:
    async with opened("memory:") as hf:
        await corpus.make(hf, "narrow", language, corpus.modules)
        first, second = await corpus.session(hf, "narrow"), await corpus.session(hf, "narrow")
        token = await evaluate(hf, first, MAKE[language])
        write, read = GLOBALS[language]
        await evaluate(hf, first, write)
        nothing = {"javascript": "undefined", "lua": "nil"}[language]
        assert await evaluate(hf, second, read) == [nothing, 0, 0, 0]
        foreign = FOREIGN[language].format(token=token, session=first)
        refused = ["DATABASE_NOT_CONFIGURED", "DATABASE_LOST", "NAMESPACE_NOT_ALLOWED", "NAMESPACE_NOT_ALLOWED", False]
        assert await evaluate(hf, second, foreign) == refused
        other = corpus.world.base / "tree-evil"
        apart = (await hf.sessions.create("narrow", worktree=Worktree("other", "deadbeef", str(other)))).id
        for path in ("../tree/note.txt", str(corpus.world.tree / "note.txt")):
            turn = await hf.executions.run(
                apart, f"{'return ' if language == 'lua' else ''}require('fs').readFileSync('{path}')"
            )
            assert turn.execution.error is not None
            assert turn.execution.error["code"] == "INVALID_PATH"

"""The process that `modules` kills: its scripts use native modules, and keep a trail of what they are sure of and what is uncertain.

    python -m tests.chaos.module_worker ADDRESS FOLDER SEED URL AT_ONCE [repeating]

Each session has a worktree of its own, FOLDER/trees/NAME. What scripts post goes to URL. If CHAOS_DATABASE is the address of a PostgreSQL
database, they use that too.
"""

import asyncio
import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast import Capability, EffectKind, Holdfast, Settings, Worktree
from holdfast.capabilities import modules
from holdfast.domain import Session
from tests.chaos.driving import Driver, Language

DATABASE = "CHAOS_DATABASE"
TABLE = "create table made (name text, kind text, n int, part int)"
NAMESPACE = "chaos"
ROUNDS = 3

# A round asks, counts, does a third of the things that there are to do, in turns, and counts again. A thing is done once: what raises because
# it was done before ends the script, and what was done before is found in the world twice.
KINDS = ["run", "sync", "spawn", "insert", "transact", "post", "postsync", "wrote", "made", "moved", "removed"]
WITH_POSTGRESQL = [*KINDS, "pginsert", "pgtransact"]

# `$0` and `$1` are what is done, and its number. Both of the slow ones leave something in the background, which must not stay.
_SHORT = 'echo "$0 $1" >> lines'
_SLOW = 'sleep 0.01; echo "$0 $1" >> lines; sleep 60 & sleep 0.01'
_DEEP = '(sleep 60 &); echo "$0 $1" >> lines; sleep 0.02'

# It takes a while, so that somebody is killed in the middle of it.
_INSERT = (
    "insert into made (name, kind, n, part) select cast($1 as text), cast($2 as text), cast($3 as int), cast($4 as int) from"
    " (with recursive t(i) as (select 1 union all select i + 1 from t where i < 20000) select count(*) from t) as slow"
)

JAVASCRIPT = """
const fs = require("fs"), exec = require("exec"), db = require("database"), http = require("http"), state = require("state");
const trail = [];
const program = (text, what, n) => ["/bin/sh", ["-c", text, what, String(n)]];
const well = (ended) => { if (ended.code !== 0) throw new Error("a program failed: " + JSON.stringify(ended)) };
const count = (n, seen) => { if (seen !== n) throw new Error(`counted ${seen} instead of ${n}`) };
const insert = (what, n, part) => db.exec(what.startsWith("pg") ? INSERT : INSERT.replace(/\\$\\d/g, "?"), NAME, what, n, part);
const both = (what, n) => db.transaction(() => { insert(what, n, 1); insert(what, n, 2) });
const there = (work) => { db.configure("postgresql", "main"); try { work() } finally { db.configure("sqlite3", "rows.db") } };
const work = {
  run: (n) => exec.run(...program(SHORT, "run", n)),
  sync: (n) => well(exec.spawnSync(...program(SLOW, "sync", n))),
  spawn: async (n) => well(await exec.spawn(...program(DEEP, "spawn", n))),
  insert: (n) => insert("insert", n, 0),
  transact: (n) => both("transact", n),
  post: (n) => http.post(`${URL_}/${NAME}/post/${n}`, {n}),
  postsync: (n) => { if (!http.fetchSync(`${URL_}/${NAME}/postsync/${n}`, {method: "POST", body: "x"}).ok) throw new Error("it failed") },
  wrote: (n) => fs.writeFileSync("w" + n, "text " + n),
  made: (n) => fs.mkdirSync("d" + n),
  moved: (n) => fs.renameSync("old/a" + n, "b" + n),
  removed: (n) => fs.rmSync("old/r" + n),
  pginsert: (n) => there(() => insert("pginsert", n, 0)),
  pgtransact: (n) => there(() => both("pgtransact", n)),
};
async function attempt(what, n) {
  for (;;) {
    try { await work[what](n); trail.push([what, n]); return }
    catch (e) {
      if (e.code === "EFFECT_UNCERTAIN") { trail.push([what + "?", n]); return }
      if (e.code !== "TRANSACTION_LOST") throw e;
      trail.push(["lost", n, what]);
    }
  }
}
db.configure("sqlite3", "rows.db");
for (let n = 1; n <= ROUNDS; n++) {
  trail.push(["answer", await ask("round " + n)]);
  count(n, state.incr("first/" + NAME));
  if (n % 3 === 0) for (let i = 0, x = 0; i < 4e5; i++) x += i;
  count(n, state.update("second/" + NAME, (x) => x + 1, 0));
  state.incr("all");
  for (let i = 0; i < KINDS.length; i++) if ((n + i) % 3 === 0) await attempt(KINDS[i], n);
  count(n, state.incr("last/" + NAME));
}
trail
"""

LUA = """
local fs, exec, db, http, state = require("fs"), require("exec"), require("database"), require("http"), require("state")
local trail = {}
local function well(ended) if ended.code ~= 0 then error("a program failed: " .. ended.stderr) end end
local function count(n, seen) if seen ~= n then error("counted " .. tostring(seen) .. " instead of " .. n) end end
local function insert(what, n, part)
  local text = what:sub(1, 2) == "pg" and INSERT or INSERT:gsub("$%d", "?")
  db.exec(text, NAME, what, n, part)
end
local function both(what, n) db.transaction(function() insert(what, n, 1) insert(what, n, 2) end) end
local function there(work)
  db.configure("postgresql", "main")
  local ok, e = pcall(work)
  db.configure("sqlite3", "rows.db")
  if not ok then error(e, 0) end
end
local function url(what, n) return URL_ .. "/" .. NAME .. "/" .. what .. "/" .. n end
local work = {
  run = function(n) exec.run("/bin/sh", {"-c", SHORT, "run", tostring(n)}) end,
  sync = function(n) well(exec.spawnSync("/bin/sh", {"-c", SLOW, "sync", tostring(n)})) end,
  spawn = function(n) well(exec.spawn("/bin/sh", {"-c", DEEP, "spawn", tostring(n)})) end,
  insert = function(n) insert("insert", n, 0) end,
  transact = function(n) both("transact", n) end,
  post = function(n) http.post(url("post", n), {n = n}) end,
  postsync = function(n) if not http.fetchSync(url("postsync", n), {method = "POST", body = "x"}).ok then error("it failed") end end,
  wrote = function(n) fs.writeFileSync("w" .. n, "text " .. n) end,
  made = function(n) fs.mkdirSync("d" .. n) end,
  moved = function(n) fs.renameSync("old/a" .. n, "b" .. n) end,
  removed = function(n) fs.rmSync("old/r" .. n) end,
  pginsert = function(n) there(function() insert("pginsert", n, 0) end) end,
  pgtransact = function(n) there(function() both("pgtransact", n) end) end,
}
local function attempt(what, n)
  while true do
    local ok, e = pcall(work[what], n)
    if ok then table.insert(trail, {what, n}) return end
    local code = type(e) == "table" and e.code
    if code == "EFFECT_UNCERTAIN" then table.insert(trail, {what .. "?", n}) return end
    if code ~= "TRANSACTION_LOST" then error(e, 0) end
    table.insert(trail, {"lost", n, what})
  end
end
db.configure("sqlite3", "rows.db")
for n = 1, ROUNDS do
  table.insert(trail, {"answer", alc.ask("round " .. n)})
  count(n, state.incr("first/" .. NAME))
  if n % 3 == 0 then local x = 0 for i = 1, 1000000 do x = x + i end end
  count(n, state.update("second/" .. NAME, function(x) return x + 1 end, 0))
  state.incr("all")
  for i, what in ipairs(KINDS) do if (n + i - 1) % 3 == 0 then attempt(what, n) end end
  count(n, state.incr("last/" .. NAME))
end
return trail
"""


def kinds() -> list[str]:
    """What a script of this process does."""
    return WITH_POSTGRESQL if os.environ.get(DATABASE) else KINDS


def make_tree(folder: Path, name: str) -> Path:
    """A worktree with a database, and with what scripts move and remove; it is there as a whole."""
    path = folder / "new" / name
    (path / "old").mkdir(parents=True)
    for n in range(1, ROUNDS + 1):
        for letter in "ar":
            (path / "old" / f"{letter}{n}").touch()
    with contextlib.closing(sqlite3.connect(path / "rows.db")) as connection:
        connection.execute(TABLE)
        connection.commit()
    (folder / "trees").mkdir(exist_ok=True)
    return path.rename(folder / "trees" / name)


@contextlib.contextmanager
def repeating() -> Iterator[None]:
    """Breaks modules on purpose: what must be done once is done again after a crash, and nobody is told."""
    broken = [
        *((modules()[module], name) for module, name in (("exec", "run"), ("exec", "spawnSync"), ("database", "exec"))),
        (modules()["http"], "sendSync"),
    ]
    waiting = [(modules()["exec"], "spawn"), (modules()["http"], "send")]
    marks: list[tuple[Any, str, Any]] = [(getattr(module, name), "effect_kind", EffectKind.READ) for module, name in broken]
    marks += [(getattr(module, name), "waits_once", False) for module, name in waiting]
    before = [getattr(method, mark) for method, mark, _ in marks]
    try:
        for method, mark, value in marks:
            setattr(method, mark, value)
        yield
    finally:
        for (method, mark, _), value in zip(marks, before, strict=True):
            setattr(method, mark, value)


class ModuleWorker(Driver):
    def __init__(self, folder: Path, seed: int, url: str, at_once: int = 1) -> None:
        super().__init__(folder, seed)
        self._folder, self._url, self.at_once = folder, url, at_once

    def open(self, address: str) -> Holdfast:
        return Holdfast.open(address, settings=Settings(lease_ms=1_000, begin_after_ms=10))

    async def make_template(self, hf: Holdfast, language: Language) -> None:
        there = {"main": {"driver": "postgresql", "dsn_env": DATABASE}} if os.environ.get(DATABASE) else {}
        url = urlsplit(self._url)
        rule = {"scheme": "http", "host": url.hostname, "port": url.port, "methods": ["POST"]}
        configs: dict[str, dict[str, Any]] = {
            "fs": {"write": True},
            "exec": {"programs": ["/bin/sh"], "timeout_ms": 60_000},
            "database": {"files": True, "connections": there, "timeout_ms": 60_000},
            "http": {"allow": [rule], "private": ["127.0.0.1"], "timeout_ms": 60_000},
            "state": {"namespace": NAMESPACE},
        }
        grants = [Capability("module", name, config=config) for name, config in configs.items()]
        await hf.templates.create(language, language=language, capabilities=grants)

    async def make_session(self, hf: Holdfast, language: str) -> Session:
        tree = make_tree(self._folder, f"{self.random.getrandbits(60):x}")
        return await hf.sessions.create(language, worktree=Worktree("chaos", "deadbeef", str(tree)))

    def source(self, session: Session, language: str) -> str:
        assert session.worktree is not None
        values = {
            "NAME": repr(Path(session.worktree.path).name),
            "URL_": repr(self._url),
            "ROUNDS": str(ROUNDS),
            "SHORT": repr(_SHORT),
            "SLOW": repr(_SLOW),
            "DEEP": repr(_DEEP),
            "INSERT": repr(_INSERT),
        }
        is_lua = language == "lua"
        names = ", ".join(map(repr, kinds()))
        values["KINDS"] = f"{{{names}}}" if is_lua else f"[{names}]"
        word = "local" if is_lua else "const"
        return "".join(f"{word} {name} = {value};" for name, value in values.items()) + (LUA if is_lua else JAVASCRIPT)


if __name__ == "__main__":
    _, address, folder, seed, url, at_once, *options = sys.argv
    with repeating() if "repeating" in options else contextlib.nullcontext():
        asyncio.run(ModuleWorker(Path(folder), int(seed), url, int(at_once)).run(address))

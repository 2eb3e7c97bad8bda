"""The process that is killed: it runs sessions in both languages, answers their queries, and notes what it was told.

Notes go to a file with one write each, so a note is whole or not there, and is there even if the process is killed in the next instant.
A note is written only after Holdfast has acknowledged what it says.

    python -m tests.chaos.worker ADDRESS FOLDER SEED [forgetful]
"""

import asyncio
import contextlib
import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast import Capability, EffectKind, Function, Holdfast, HoldfastError, Settings, Tool, Turn
from holdfast.domain import ExecutionStatus, NameTaken, SessionState
from holdfast.store import Commit, Store, open_store

# Each round asks, reads, pays; some rounds use a tool, compute for a while and pay again, or sleep. What came of it is in the trail.
JAVASCRIPT = """
const trail = [];
function pay(what, name, n) {
  try { hf.call("world.pay", name, n); trail.push([what, n]) }
  catch (e) { if (e.code !== "EFFECT_UNCERTAIN") throw e; trail.push([what + "?", n]) }
}
for (let n = 1; n <= ROUNDS; n++) {
  trail.push(["answer", await ask("round " + n)]);
  if (hf.call("world.read", n) !== n * 2) throw new Error("a read was wrong");
  pay("paid", NAME, n);
  if (n % 3 === 0) { try { trail.push(["tool", n, await hf.tool("ship", {name: NAME, n})]) } catch (e) { trail.push(["tool?", n, e.code]) } }
  if (n % 4 === 0) { let x = 0; for (let i = 0; i < 4e5; i++) x += i; pay("slow", NAME + "/slow", n) }
  if (n % 5 === 0) await hf.sleep(20);
}
trail
"""

LUA = """
local trail = {}
local function pay(what, name, n)
  local ok, e = pcall(alc.call, "world.pay", name, n)
  if ok then table.insert(trail, {what, n}) elseif e.code == "EFFECT_UNCERTAIN" then table.insert(trail, {what .. "?", n}) else error(e) end
end
for n = 1, ROUNDS do
  table.insert(trail, {"answer", alc.ask("round " .. n)})
  if alc.call("world.read", n) ~= n * 2 then error("a read was wrong") end
  pay("paid", NAME, n)
  if n % 3 == 0 then
    local ok, e = pcall(alc.tool, "ship", {name = NAME, n = n})
    if ok then table.insert(trail, {"tool", n, e}) else table.insert(trail, {"tool?", n, e.code}) end
  end
  if n % 4 == 0 then local x = 0 for i = 1, 1000000 do x = x + i end pay("slow", NAME .. "/slow", n) end
  if n % 5 == 0 then alc.sleep(20) end
end
return trail
"""
ROUNDS = 12
SCRIPTS = {
    "javascript": f"const NAME = '@', ROUNDS = {ROUNDS};" + JAVASCRIPT,
    "lua": f"local NAME, ROUNDS = '@', {ROUNDS};" + LUA,
}

# Two who drive the same session get in each other's way, and are told so.
EXPECTED = ("SESSION_BUSY", "ANSWER_CONFLICT", "ANSWER_AMBIGUOUS", "SESSION_NOT_READY")


class Notes:
    """Lines of JSON in a file, appended whole."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *note: Any) -> None:
        os.write(self._file, (json.dumps(note) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


class Forgetful:
    """A store that is broken on purpose: it acknowledges every tenth commit without writing it."""

    def __init__(self, store: Store) -> None:
        self._store, self._count = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, commits: Sequence[Commit]) -> list[HoldfastError | None]:
        outcomes: list[HoldfastError | None] = []
        for commit in commits:
            self._count += 1
            outcomes += [None] if self._count % 10 == 0 else self._store.commit([commit])
        return outcomes


class Worker:
    def __init__(self, folder: Path, seed: int, *, forgetful: bool = False) -> None:
        self._world, self._notes = Notes(folder / "world"), Notes(folder / "notes")
        self._random = random.Random(seed)
        self._forgetful = forgetful

    def close(self) -> None:
        self._world.close()
        self._notes.close()

    async def ship(self, args: dict[str, Any]) -> str:
        await asyncio.sleep(self._random.random() * 0.02)
        self._world.write("ship", args["name"], args["n"])
        await asyncio.sleep(self._random.random() * 0.02)
        return f"shipped {args['n']}"

    def open(self, address: str) -> Holdfast:
        functions = [
            Function("world.read", lambda n: n * 2, EffectKind.READ),
            Function("world.pay", lambda name, n: self._world.write("pay", name, n)),
        ]
        settings = Settings(lease_ms=1_000, begin_after_ms=10)
        store: Any = Forgetful(open_store(address)) if self._forgetful else address
        return Holdfast.open(store, functions=functions, tools=[Tool("ship", self.ship)], settings=settings)

    async def run(self, address: str) -> None:
        self._notes.write("opening")
        async with self.open(address) as hf:
            await self._templates(hf)
            self._notes.write("ready")
            await asyncio.gather(*(self._drive(hf, language) for language in ("javascript", "lua") * 4))

    async def _templates(self, hf: Holdfast) -> None:
        grants = [Capability("function", "world.read"), Capability("function", "world.pay"), Capability("tool", "ship")]
        for language in ("javascript", "lua"):
            try:
                await hf.templates.get(language)
            except HoldfastError:
                with contextlib.suppress(NameTaken):
                    await hf.templates.create(language, language=language, capabilities=grants)

    async def _drive(self, hf: Holdfast, language: str) -> None:
        while True:
            try:
                turn = await self._next(hf, language)
                while turn.execution.status is ExecutionStatus.PAUSED:
                    turn = await self._answer(hf, turn)
                self._noted(turn)
            except HoldfastError as error:
                if error.code not in EXPECTED and not self._forgetful:
                    raise
                await asyncio.sleep(0.01)

    async def _next(self, hf: Holdfast, language: str) -> Turn:
        """A session that somebody left behind, or a new one."""
        waiting = (await hf.sessions.list(states=[SessionState.PAUSED], template=language, limit=100)).items
        if waiting and self._random.random() < 0.8:
            session = self._random.choice(waiting)
            if session.execution_id is not None:
                return await hf.executions.turn(session.execution_id)
        ready = (await hf.sessions.list(states=[SessionState.READY], template=language, limit=20)).items
        fresh = [session for session in ready if session.steps == 0]
        session = self._random.choice(fresh) if fresh else await hf.sessions.create(language)
        self._notes.write("session", str(session.id))
        turn = await hf.executions.run(
            session.id, SCRIPTS[language].replace("@", str(session.id)), background=self._random.random() < 0.3
        )
        self._noted(turn)
        return turn

    async def _answer(self, hf: Holdfast, turn: Turn) -> Turn:
        asks = [query for query in turn.queries if query.kind == "ask"]
        if not asks:
            return await hf.executions.wait(turn.execution.id)
        answer = f"{asks[0].id} {self._random.getrandbits(40):x}"
        again = await hf.queries.answer(turn.session.id, answer, query=asks[0].id)
        self._notes.write("answered", str(turn.session.id), asks[0].id, answer)
        self._noted(again)
        return again

    def _noted(self, turn: Turn) -> None:
        session, execution = str(turn.session.id), str(turn.execution.id)
        if turn.execution.status is ExecutionStatus.PAUSED:
            self._notes.write("paused", session, execution, [query.id for query in turn.queries])
        elif turn.execution.status is not ExecutionStatus.RUNNING:
            self._notes.write("ended", session, execution, turn.execution.status.value, turn.execution.result)


if __name__ == "__main__":
    worker = Worker(Path(sys.argv[2]), int(sys.argv[3]), forgetful="forgetful" in sys.argv[4:])
    asyncio.run(worker.run(sys.argv[1]))

"""The process that `kill9` kills: its scripts use functions and a tool of its own, which note what they do.

python -m tests.chaos.worker ADDRESS FOLDER SEED [forgetful]
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast import Capability, EffectKind, Function, Holdfast, HoldfastError, Settings, Tool
from holdfast.domain import Session
from holdfast.store import Commit, Store, open_store
from tests.chaos.driving import Driver, Language, Notes

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


class Worker(Driver):
    def __init__(self, folder: Path, seed: int, *, forgetful: bool = False) -> None:
        super().__init__(folder, seed)
        self._world = Notes(folder / "world")
        self.tolerant = forgetful

    def close(self) -> None:
        super().close()
        self._world.close()

    async def ship(self, args: dict[str, Any]) -> str:
        await asyncio.sleep(self.random.random() * 0.02)
        self._world.write("ship", args["name"], args["n"])
        await asyncio.sleep(self.random.random() * 0.02)
        return f"shipped {args['n']}"

    def open(self, address: str) -> Holdfast:
        functions = [
            Function("world.read", lambda n: n * 2, EffectKind.READ),
            Function("world.pay", lambda name, n: self._world.write("pay", name, n)),
        ]
        settings = Settings(lease_ms=1_000, begin_after_ms=10)
        store: Any = Forgetful(open_store(address)) if self.tolerant else address
        return Holdfast.open(store, functions=functions, tools=[Tool("ship", self.ship)], settings=settings)

    async def make_template(self, hf: Holdfast, language: Language) -> None:
        grants = [Capability("function", "world.read"), Capability("function", "world.pay"), Capability("tool", "ship")]
        await hf.templates.create(language, language=language, capabilities=grants)

    def source(self, session: Session, language: str) -> str:
        return SCRIPTS[language].replace("@", str(session.id))


if __name__ == "__main__":
    worker = Worker(Path(sys.argv[2]), int(sys.argv[3]), forgetful="forgetful" in sys.argv[4:])
    asyncio.run(worker.run(sys.argv[1]))

"""Values between a script and its host: what is too large is refused before it is decoded, what is honest goes through."""

import threading
import time
from typing import Any

import pytest

from holdfast import EffectKind, Function, Limits
from holdfast.sandbox import Image, Template
from holdfast.store import StoreDamaged

from .scenes import evaluate, grants, opened, scene, session

ROOM = Limits(wall_ms=20_000, cpu_ms=20_000, mem_mb=512, max_output_kb=40_000)


class _Watch:
    """The longest that this process computed without letting another thread run."""

    def __enter__(self) -> "_Watch":
        self.longest = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.is_set():
            wall, used = time.perf_counter(), time.process_time()
            time.sleep(0.002)
            self.longest = max(self.longest, min(time.perf_counter() - wall, time.process_time() - used))

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()


def _functions(seen: list[Any]) -> list[Function]:
    rows = [{f"column{n}": n if n % 2 else f"text {n}" for n in range(10)} for _ in range(10_000)]
    return [
        Function("take", lambda value=None: seen.append(value), EffectKind.READ),
        Function("rows", lambda: rows, EffectKind.READ),
        Function("text", lambda: "é" * 5_000_000, EffectKind.READ),
    ]


BOMBS = {
    "empty arrays": "Array(4.5e6).fill([])",
    "numbers": "Array(3e6).fill(1)",
    "objects": "Array(1e6).fill({a: {}})",
    "one object": "Object.fromEntries(Array.from({length: 6e5}, (_, n) => [n, n]))",
    "text": "'x'.repeat(2e7)",
    "escapes": "'\\u0001'.repeat(3e6)",
    "a key": "({['k'.repeat(6e6)]: 1})",
    "maps": "Array.from({length: 1e5}, () => new Map([[{}, {}]]))",
}


@pytest.mark.parametrize("bomb", BOMBS)
@scene
async def test_a_bomb_is_refused_before_it_is_decoded(bomb: str) -> None:
    seen: list[Any] = []
    functions = _functions(seen)
    async with opened("memory:", functions=functions) as hf:
        here = await session(hf, "javascript", capabilities=grants(functions), limits=ROOM)
        with _Watch() as watch:
            code = await evaluate(hf, here, f"try {{ hf.call('take', {BOMBS[bomb]}) }} catch (error) {{ error.code }}")
        assert code in ("VALUE_REFUSED", "REQUEST_TOO_LARGE")
        assert seen == []
        assert watch.longest < 0.25  # it was 2.6 s, and is some milliseconds on a machine that does nothing else


@scene
async def test_honest_values_go_through() -> None:
    seen: list[Any] = []
    functions = _functions(seen)
    async with opened("memory:", functions=functions) as hf:
        here = await session(hf, "javascript", capabilities=grants(functions), limits=ROOM)
        assert await evaluate(hf, here, "hf.call('take', Array.from({length: 1e5}, (_, n) => n / 2)); 1") == 1
        assert seen.pop() == [n / 2 for n in range(100_000)]
        assert await evaluate(hf, here, "hf.call('take', 'x'.repeat(1e7)); 1") == 1
        assert seen.pop() == "x" * 10_000_000
        assert await evaluate(hf, here, "const rows = hf.call('rows'); hf.call('take', rows); rows.length") == 10_000
        assert seen.pop()[9_999]["column8"] == "text 8"
        assert await evaluate(hf, here, "hf.call('text').length") == 5_000_000
        assert len(await evaluate(hf, here, "hf.call('rows')")) == 10_000
        assert await evaluate(hf, here, "'漢字'.repeat(1e6)") == "漢字" * 1_000_000


@scene
async def test_a_result_that_no_limit_of_output_holds_back_is_a_breach() -> None:
    async with opened("memory:") as hf:
        here = await session(hf, "javascript", limits=Limits(wall_ms=30_000, cpu_ms=30_000, mem_mb=1024, max_output_kb=0))
        done = (await hf.executions.run(here, "Array(1.1e6).fill(0)")).execution
        assert done.status.value in ("error", "timeout")
        assert done.error is not None
        assert "max_output_kb" in done.error["message"]
        assert await evaluate(hf, here, "1 + 1") == 2


def test_a_memory_that_is_that_of_no_guest_is_an_error_of_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a script might leave one that has found a way to write where it must not."""

    @scene
    async def tampered() -> None:
        async with opened("memory:") as hf:
            here, other = await session(hf), await session(hf)
            await hf.executions.run(here, "await ask('Go?')")
            monkeypatch.setattr(Template, "thaw", _thawed_wrongly)
            for slot in hf.executions._runtime._runtime._dispatcher._slots.values():
                if slot.resident is not None:
                    slot.resident.hibernate()
            with pytest.raises(StoreDamaged, match="checkpoint"):
                await hf.queries.answer(here, "yes")
            assert await evaluate(hf, other, "1 + 1") == 2

    tampered()


def _thawed_wrongly(template: Template, image: Image, **options: Any) -> Any:
    """A sandbox whose control block points anywhere."""
    at = template.guest.control_at
    page = bytearray(image.page(at // 4096))
    page[at % 4096 + 4 : at % 4096 + 24] = b"\xff" * 20
    wrong = Image(template, image.size, image.pages | {at // 4096: bytes(page)}, image.label)
    return _thaw(template, wrong, **options)


_thaw = Template.thaw

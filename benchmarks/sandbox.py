"""The sandbox suite: making, running, freezing and stopping sandboxes, in process and without a store."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.busy import busy_threads
from benchmarks.hostile import CORPUS
from benchmarks.libraries import library
from benchmarks.rows import Row, alternately, seconds
from holdfast.domain import Limits
from holdfast.sandbox import Breached, Engine, Finished, Image, Language, Paused, Sandbox, Source, Template

KEY = b"benchmark key 16"
FREE = Limits(wall_ms=0, cpu_ms=0, mem_mb=512, max_events=0, max_output_kb=0)
ASKING: dict[Language, str] = {
    "javascript": "while (true) await llm('next')",
    "lua": "while true do alc.llm('next') end",
}
WORKING: dict[Language, str] = {  # 1,000 live objects, and one small step between two pauses
    "javascript": """
        const items = Array.from({length: 1000}, (_, i) => ({id: i, name: 'item ' + i, done: false}));
        for (let n = 0; ; n++) { const answer = await llm('item ' + n); items[n % 1000].done = true; items[n % 1000].answer = answer }
    """,
    "lua": """
        items = {}
        for i = 1, 1000 do items[i] = {id = i, name = 'item ' .. i, done = false} end
        for n = 1, math.huge do
            local answer = alc.llm('item ' .. n); items[n % 1000 + 1].done = true; items[n % 1000 + 1].answer = answer
        end
    """,
}
HEAP_64_MB = "globalThis.heap = Array.from({length: 60}, (_, i) => new Uint8Array(1 << 20).fill(i + 1));\n"


def run(only: str = "") -> Iterator[Row]:
    """All rows of the suite, or those whose measurement has this word in its name."""
    with Engine() as engine:
        for measure in (create, resume, evaluate, fib, delta, delta_64mb, memory, hostile):
            if only in measure.__name__:
                yield from measure(engine)


def create(engine: Engine) -> Iterator[Row]:
    source = library("lodash")
    template = engine.guest("javascript").template([Source("lodash.js", source)])
    with template.create() as sandbox:
        assert _value(sandbox.evaluate("_.chunk([1, 2, 3], 2).length")) == 2
    ours = seconds(template.create, 1000, after=Sandbox.close)
    native = seconds(lambda: peers.quickjs_context(source), 50)
    yield Row("create_from_lodash_template_ms", ours * 1e3, 0.3, 0.1)
    yield Row("create_from_lodash_template_vs_native_eval", native / ours, 50, 150, higher=True)
    yield Row("peer_quickjs_lodash_ms", native * 1e3)
    yield Row("peer_v8_lodash_ms", seconds(lambda: peers.v8_isolate(source), 20, after=lambda context: context.close()) * 1e3)


def resume(engine: Engine) -> Iterator[Row]:
    yield Row("resume_js_us", _resume_seconds(engine, "javascript") * 1e6, 120, 100)
    yield Row("resume_lua_us", _resume_seconds(engine, "lua") * 1e6, 25, 15)
    yield Row("peer_monty_resume_us", peers.monty_resume_seconds(2000) * 1e6)


def _resume_seconds(engine: Engine, language: Language) -> float:
    with _asking(engine.guest(language).template(), ASKING[language]) as (sandbox, _):
        number = count(1)
        return seconds(lambda: sandbox.resume({next(number): "answer"}), 5000, warm=200)


def evaluate(engine: Engine) -> Iterator[Row]:
    with engine.guest("javascript").template().create(limits=FREE) as sandbox:
        yield Row("eval_js_us", seconds(lambda: sandbox.evaluate("1+1"), 5000, warm=200) * 1e6, 60, 30)
    context = peers.quickjs_context()
    yield Row("peer_quickjs_eval_us", seconds(lambda: context.eval("1+1"), 5000, warm=200) * 1e6)
    with engine.guest("lua").template().create(limits=FREE) as sandbox:
        yield Row("eval_lua_us", seconds(lambda: sandbox.evaluate("1+1"), 5000, warm=200) * 1e6)


def fib(engine: Engine) -> Iterator[Row]:
    javascript = engine.guest("javascript").template([Source("fib.js", peers.FIB_JAVASCRIPT)]).create(limits=FREE)
    lua = engine.guest("lua").template([Source("fib.lua", peers.FIB_LUA)]).create(limits=FREE)
    native_javascript, native_lua = peers.quickjs_context(peers.FIB_JAVASCRIPT), peers.lua_state(peers.FIB_LUA)
    v8 = peers.v8_isolate(peers.FIB_JAVASCRIPT)
    assert _value(javascript.evaluate("fib(24)")) == _value(lua.evaluate("fib(24)")) == v8.eval("fib(24)") == 46368
    works: list[Callable[[], Any]] = [
        lambda: javascript.evaluate("fib(24)"),
        lambda: native_javascript.eval("fib(24)"),
        lambda: lua.evaluate("fib(24)"),
        lambda: native_lua.eval("fib(24)"),
        lambda: v8.eval("fib(24)"),
    ]
    ours, native, ours_lua, native_of_lua, jit = alternately(works, 60)
    yield Row("fib_js_vs_native", ours / native, 1.5, 1.2)
    yield Row("fib_lua_vs_native", ours_lua / native_of_lua, 2.5, 1.8)
    yield Row("peer_v8_fib_vs_native_quickjs", jit / native)
    javascript.close()
    lua.close()


def delta(engine: Engine) -> Iterator[Row]:
    yield from _delta(engine.guest("javascript").template(), "javascript", "", (4096, 1024), (1, 0.4), (1.5, 0.5))
    yield from _delta(engine.guest("lua").template(), "lua", "_lua", None, None, None)


def _delta(template: Template, language: Language, suffix: str, *targets: tuple[float, float] | None) -> Iterator[Row]:
    sizes: list[int] = []
    times: list[float] = []
    with _asking(template, WORKING[language]) as (sandbox, before):
        for number in range(1, 301):
            sandbox.resume({number: "done"})
            begun = time.perf_counter()
            after = sandbox.freeze()
            sealed = after.seal(KEY, before)
            times.append(time.perf_counter() - begun)
            sizes.append(len(sealed))
            before = after
    rows = [("delta_bytes", _median(sizes)), ("delta_ms", _median(times) * 1e3)]
    whole = before.seal(KEY, template)
    thawing = seconds(lambda: template.thaw(template.open(whole, KEY)), 300, after=Sandbox.close)
    rows.append(("thaw_ms", thawing * 1e3))
    for (key, value), target in zip(rows, targets, strict=True):
        yield Row(key + suffix, value, *(target or (None, None)))
    yield Row(f"checkpoint_bytes{suffix}", len(whole))


def delta_64mb(engine: Engine) -> Iterator[Row]:
    times: list[float] = []
    with _asking(engine.guest("javascript").template(), HEAP_64_MB + WORKING["javascript"]) as (sandbox, before):
        for number in range(1, 51):
            sandbox.resume({number: "done"})
            begun = time.perf_counter()
            after = sandbox.freeze()
            after.seal(KEY, before)
            times.append(time.perf_counter() - begun)
            before = after
    yield Row("delta_ms_64mb", _median(times) * 1e3, 15, 1.5)


def memory(engine: Engine) -> Iterator[Row]:
    """In a process of its own, so that nothing else is counted."""
    script = "from benchmarks.sandbox import private_memory; private_memory()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    idle, after = map(float, done.stdout.split())
    yield Row("private_kb_idle", idle, 64, 14)
    yield Row("private_kb_after_eval", after, 256, 150)


def private_memory(number: int = 1000) -> None:
    """Prints the kilobytes of RssAnon for each of many sandboxes, before and after a small evaluation in each."""
    with Engine() as engine:
        template = engine.guest("javascript").template([Source("lodash.js", library("lodash"))])
        template.create().close()
        start = _rss_anon()
        sandboxes = [template.create() for _ in range(number)]
        idle = _rss_anon()
        for sandbox in sandboxes:
            sandbox.evaluate("_.sum([1, 2, 3])")
        print((idle - start) / number, (_rss_anon() - start) / number)
        for sandbox in sandboxes:
            sandbox.close()


def _rss_anon() -> int:
    found = re.search(r"RssAnon:\s*(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


def hostile(engine: Engine) -> Iterator[Row]:
    yield Row("hostile_overrun_ms", _worst_overrun(engine), 20, 10)
    with busy_threads(4):
        yield Row("hostile_overrun_busy_ms", _worst_overrun(engine), 80, 30)


def _worst_overrun(engine: Engine) -> float:
    """How long after its limit the last of the corpus came back, in milliseconds."""
    limits = Limits(wall_ms=200, cpu_ms=0, mem_mb=256)
    worst = 0.0
    for language, programs in CORPUS.items():
        template = engine.guest(language).template()
        for program in programs:
            with template.create(limits=limits) as sandbox:
                begun = time.perf_counter()
                outcome = sandbox.evaluate(program)
                worst = max(worst, (time.perf_counter() - begun) * 1e3 - limits.wall_ms)
                assert isinstance(outcome, Breached), (program, outcome)
    return worst


@contextmanager
def _asking(template: Template, source: str) -> Iterator[tuple[Sandbox, Image]]:
    """A sandbox that waits for its first answer, and its image."""
    with template.create(limits=FREE, seed=1) as sandbox:
        outcome = sandbox.evaluate(source)
        assert isinstance(outcome, Paused), outcome
        yield sandbox, sandbox.freeze()


def _value(outcome: object) -> Any:
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def _median(values: list[Any]) -> float:
    return float(sorted(values)[len(values) // 2])

"""The same work in other systems, measured in the same run."""

import statistics
import time
from typing import Any

import lupa.lua54  # type: ignore[import-untyped]
import pydantic_monty
import quickjs
from py_mini_racer import MiniRacer

FIB_JAVASCRIPT = "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }"
FIB_LUA = "function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end"


def quickjs_context(*sources: str) -> Any:
    """A context of native QuickJS that has evaluated these sources."""
    context = quickjs.Context()
    for source in sources:
        context.eval(source)
    return context


def lua_state(*sources: str) -> Any:
    """A native Lua state that has run these sources."""
    runtime = lupa.lua54.LuaRuntime()
    for source in sources:
        runtime.execute(source)
    return runtime


def v8_isolate(*sources: str) -> Any:
    """A V8 isolate that has evaluated these sources."""
    context = MiniRacer()
    for source in sources:
        context.eval(source)
    return context


def monty_resume_seconds(times: int) -> float:
    """The median from an answer to the next pause, in a worker process of Monty."""
    taken: list[float] = []
    with pydantic_monty.Monty() as pool, pool.checkout(limits={"max_suspensions": 10**9}) as session:
        snapshot: Any = session.feed_start("while True:\n    llm('next')\n", external_lookup={"llm": None})
        for _ in range(times):
            begun = time.perf_counter()
            snapshot = snapshot.resume({"return_value": "answer"})
            taken.append(time.perf_counter() - begun)
    return statistics.median(taken)

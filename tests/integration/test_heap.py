"""The guests' heap under random use: blocks keep their content, free memory is zero, and nothing leaks."""

from pathlib import Path

import pytest

from guests.build.cache import Cache, default_root
from guests.build.compile import Compiler
from guests.build.recipes import COMPILE, LINK
from holdfast.domain import Limits
from holdfast.sandbox import Engine, Evaluate, Guest

HERE = Path(__file__).parent
COMMON = HERE.parent.parent / "guests" / "common"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    wasm = tmp_path_factory.mktemp("heap") / "heap.wasm"
    sources = [*map(str, sorted(COMMON.glob("*.c"))), str(HERE / "heap_check.c")]
    # With the guests' own flags zig has the C library already.
    flags = [*COMPILE, *LINK, f"-I{COMMON}", "-o", str(wasm)]
    Compiler(Cache(default_root())).run(wasm.parent, [*sources, *flags], "the heap's test cannot be compiled")
    with Engine(None) as engine:
        template = Guest(engine, "lua", wasm.read_bytes()).template()
        with template.create(limits=Limits(wall_ms=60_000, cpu_ms=60_000)) as sandbox:
            yield sandbox


@pytest.mark.slow
def test_random_use(sandbox):
    sizes = []
    for seed in range(8):
        outcome = sandbox.step(Evaluate(""), seed=seed)
        assert outcome.result.preview == "fine"
        sizes.append(len(sandbox.content()))
    assert sizes[-1] < 2 * sizes[0], "memory is not used again"
    stack = 2 << 20
    in_use = len(sandbox.content()[stack:]) - sandbox.content()[stack:].count(0)
    assert in_use < 10_000, "what was freed is not zero"

"""What each guest is made of."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from guests.build.edits import Edit
from guests.build.sources import Source

QUICKJS = Source(
    "quickjs-ng", "0.17.0.2", "43d2e48272208721a7aaea8e3f02d4b9318f12ef20cc4f5421b59d9a470706ef", "upstream-quickjs"
)
LUA = Source("lupa", "2.8", "d8022641b9ec8ecf2c5ecbe9f47e5a70e0b87c4b5ae921b92cb02a638e0acd08", "third-party/lua54")

COMPILE = (
    "--target=wasm32-wasi",
    "-O2",
    "-g0",
    "-D_GNU_SOURCE",
    "-D_WASI_EMULATED_PROCESS_CLOCKS",
    "-D_WASI_EMULATED_SIGNAL",
)
# Lua's longjmp becomes a WebAssembly exception.
LONGJMP = ("-mexception-handling", "-mllvm", "-wasm-enable-sjlj", "-mllvm", "-wasm-use-legacy-eh=false")
# zig compiles a C library for each set of these flags, in half a minute. JavaScript throws nothing, and its module is the same to the
# byte with or without the flags for exceptions, so both guests are linked with one library.
#
# The size of the stack is fixed, because the default of 16 MB would be part of every image. It comes first in memory, so that an
# overflow traps instead of writing over data: zig always links so, and has no flag for it.
LINK = (
    "--target=wasm32-wasi",
    "-mexec-model=reactor",
    "-O2",
    "-s",
    "-Wl,-z,stack-size=2097152",
    "-lwasi-emulated-process-clocks",
    "-lwasi-emulated-signal",
    *LONGJMP,
)

# Warnings are errors in our files, not in headers of third parties. Callbacks rarely need all of their parameters.
OURS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-isystem", "source")
THEIRS = ("-w",)


@dataclass(frozen=True)
class Review:
    """What a guest's own `edits.py` says about its third-party sources. Only EDITS is required."""

    edits: tuple[Edit, ...]  # EDITS
    sources: tuple[str, ...]  # SOURCES: the files to compile
    include: str | None  # INCLUDE: our header that is put before each of them, and before our own files
    appended: Mapping[str, str]  # APPEND: our file that is included at the end of one of them
    bundle: tuple[str, ...]  # BUNDLE: the command that makes the prelude
    prelude: str  # PRELUDE: the file that it writes
    scripts: tuple[str, ...]  # SCRIPTS: the files of a prelude that needs no bundling, in the order in which they run
    test_sources: tuple[str, ...]  # TEST_SOURCES: more files for the build that runs official tests
    test_defines: tuple[str, ...]  # TEST_DEFINES: and its macros


@dataclass(frozen=True)
class Recipe:
    """One module to build."""

    name: str
    language: str
    source: Source
    compile_flags: tuple[str, ...] = COMPILE
    link_flags: tuple[str, ...] = LINK
    assembly: bool = False  # whether guests/common/*.s belong to it
    tests: bool = False  # whether it is the build that runs official tests

    def review(self) -> Review:
        own = vars(importlib.import_module(f"guests.{self.language}.edits"))
        return Review(
            edits=tuple(Edit(*edit) for edit in own["EDITS"]),
            sources=tuple(own.get("SOURCES", ("quickjs.c", "libregexp.c", "libunicode.c", "dtoa.c"))),
            include=own.get("INCLUDE"),
            appended=own.get("APPEND", {}),
            bundle=tuple(own.get("BUNDLE", ())),
            prelude=own.get("PRELUDE", ""),
            scripts=tuple(own.get("SCRIPTS", ())),
            test_sources=tuple(own.get("TEST_SOURCES", ())),
            test_defines=tuple(own.get("TEST_DEFINES", ())),
        )


JAVASCRIPT = Recipe("javascript", "javascript", QUICKJS)
LUA_GUEST = Recipe("lua", "lua", LUA, COMPILE + LONGJMP, (*LINK, "-lsetjmp"), assembly=True)
LUA_TESTS = replace(LUA_GUEST, name="lua-tests", tests=True)  # never shipped

SHIPPED = (JAVASCRIPT, LUA_GUEST)
RECIPES = {recipe.name: recipe for recipe in (*SHIPPED, LUA_TESTS)}

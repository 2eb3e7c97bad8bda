"""What the build needs to know about Lua: which files, which flags, and the few edits of its source.

An edit is applied when the guest is built, to a copy. Its `old` text must be found exactly `count` times, so a new
version of Lua that changes one of these places fails the build instead of losing a limit.
"""

from typing import NamedTuple


class Edit(NamedTuple):
    """One replacement in one file of Lua's source."""

    file: str
    reason: str
    old: str
    new: str
    count: int = 1


SOURCES = [
    *("lapi.c", "lcode.c", "lctype.c", "ldebug.c", "ldo.c", "ldump.c", "lfunc.c", "lgc.c", "llex.c", "lmem.c", "lobject.c"),
    *("lopcodes.c", "lparser.c", "lstate.c", "lstring.c", "ltable.c", "ltm.c", "lundump.c", "lvm.c", "lzio.c"),
    *("lauxlib.c", "lbaselib.c", "lmathlib.c", "lstrlib.c", "ltablib.c", "lutf8lib.c"),
]
"""Lua's core and the libraries that scripts get; coroutine, os, debug and package are our own."""

INCLUDE = "config.h"
"""Put before each of SOURCES with -include. Our own files include what they need."""

SCRIPTS = [
    f"prelude/{name}.lua"
    for name in (
        *("records", "text", "match", "lists", "regex", "schema", "validate", "llm", "asking", "parallel", "cache"),
        *("tuning", "pipe", "fork", "budget", "state", "cards", "graders", "report", "eval", "entrances"),
    )
]
"""The part of the library that is written in Lua."""

TEST_SOURCES = ["ldblib.c"]
TEST_DEFINES = ["HF_LUA_TESTS"]
"""The build for the official tests: the whole debug library, string.dump and bytecode, and stack overflows as errors."""

EDITS = [
    Edit(
        "lmem.h",
        "No memory after an emergency collection is a breach of the limit, not an error that a script may catch.",
        "luaD_throw(L, LUA_ERRMEM)",
        "hf_lua_exhausted()",
    ),
    Edit(
        "lapi.c",
        "A script that raises the text of the memory error itself has breached nothing.",
        "luaM_error(L)",
        "luaD_throw(L, LUA_ERRMEM)",
    ),
    Edit(
        "lauxlib.c",
        "Buffers allocate without a collection and raise an error of their own: collect, try again, then breach.",
        "allocf(ud, box->box, box->bsize, newsize)",
        "hf_lua_resize_box(L, box->box, newsize)",
    ),
    Edit(
        "ldo.c",
        "The limit of the stack comes with each step. (LUA_REGISTRYINDEX is a constant made of it elsewhere, and stays.)",
        "#define errorstatus",
        "#undef LUAI_MAXSTACK\n#define LUAI_MAXSTACK hf_lua_stack_limit\n#define errorstatus",
    ),
    Edit(
        "ldo.c",
        "A stack that cannot grow is a breach.",
        "/* else stack overflow */",
        "if (raiseerror) HF_STACK_BREACH((size_t)size + (size_t)n);",
    ),
    Edit(
        "ldo.c",
        "The same when the limit is lower than in the step that grew the stack.",
        "luaD_errerr(L);",
        "{ HF_STACK_BREACH((size_t)size + (size_t)n); luaD_errerr(L); }",
    ),
    Edit(
        "ldo.c",
        "Coroutines nested too deep are a breach.",
        'return resume_error(L, "C stack',
        'return HF_NESTING_BREACH(), resume_error(L, "C stack',
    ),
    Edit(
        "lstate.c",
        "C calls nested too deep are a breach.",
        "if (getCcalls(L) == LUAI_MAXCCALLS)",
        "HF_NESTING_BREACH();\n  if (getCcalls(L) == LUAI_MAXCCALLS)",
    ),
    Edit(
        "ldebug.c",
        "A message handler that fails is called with its own error, again and again, and that must not end as a breach.",
        "StkId errfunc = restorestack(L, L->errfunc);",
        "StkId errfunc = restorestack(L, L->errfunc);\n    if (HF_HANDLER_FAILS(L, s2v(errfunc))) luaD_errerr(L);",
    ),
    Edit(
        "ldo.c",
        "Bytecode is never loaded, whatever the mode: it can break the virtual machine.",
        'checkmode(L, p->mode, "binary")',
        'checkmode(L, HF_CHUNK_MODE(p->mode), "binary")',
    ),
    Edit("lbaselib.c", "No files: nothing of WASI is imported.", '{"dofile", luaB_dofile},', ""),
    Edit("lbaselib.c", "No files: nothing of WASI is imported.", '{"loadfile", luaB_loadfile},', ""),
    Edit("ldblib.c", "The same for the build that runs the official tests.", '{"debug", db_debug},', ""),
]

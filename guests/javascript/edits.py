"""What the build changes in third-party sources before it compiles them, and how it bundles the prelude.

EDITS: (file, reason, old text, new text[, count]). The old text must occur exactly once, or as often as `count` says, so that an
upgrade that moves it fails the build.
APPEND: our own file that is included at the end of a third-party one, to reach what is static there.
BUNDLE: the command that makes PRELUDE, run in this folder after `npm ci --ignore-scripts`. The guest embeds PRELUDE as
`unsigned char hf_prelude_source[]` (with a NUL after its end) and `const unsigned hf_prelude_source_size` (without it).
"""

EDITS: list[tuple[str, str, str, str] | tuple[str, str, str, str, int]] = [
    (
        "quickjs.c",
        "the edits below call functions of internals.c",
        '#include "dtoa.h"',
        '#include "dtoa.h"\n#include "internals.h"',
    ),
    (
        "quickjs.c",
        "what a script dropped must not stay readable in an image: the arena keeps freed blocks as they were",
        "b->u.free_next = ar->first_free_block;",
        "memset(b->user_data, 0, block_size - sizeof(*b));\n        b->u.free_next = ar->first_free_block;",
    ),
    (
        "quickjs.c",
        "a limit is a rollback, never a branch in the script: the stack",
        'return JS_ThrowRangeError(ctx, "Maximum call stack size exceeded");',
        'if (!hf_soft_stack)\n        hf_stack_breach(ctx->rt);\n    return JS_ThrowRangeError(ctx, "Maximum call stack size exceeded");',
    ),
    (
        "quickjs.c",
        "the same for regular expressions, which would report it as a syntax error",
        "return js_check_stack_overflow(ctx->rt, alloca_size);",
        (
            "if (!js_check_stack_overflow(ctx->rt, alloca_size))\n        return false;\n"
            "    if (!hf_soft_stack)\n        hf_stack_breach(ctx->rt);\n    return true;"
        ),
    ),
    (
        "quickjs.c",
        "the same for memory: sizes that overflow before the allocator sees them",
        'JS_ThrowInternalError(ctx, "out of memory");',
        "hf_memory_breach();",
    ),
    (
        "quickjs.c",
        "a snippet may declare again with let what an earlier one declared with var; undefined, NaN and Infinity stay closed",
        "if (prs && !(prs->flags & JS_PROP_CONFIGURABLE))",
        "if (prs && !(prs->flags & (JS_PROP_CONFIGURABLE | JS_PROP_WRITABLE)))",
    ),
    (
        "quickjs.c",
        "a snippet may declare again what an earlier one declared with let, const or class",
        "if (prs) {\n    fail_redeclaration:",
        "if (0) {\n    fail_redeclaration:",
    ),
    (
        "quickjs.c",
        "the new declaration takes the place of the old one",
        "    if (def_flags & DEFINE_GLOBAL_LEX_VAR) {",
        (
            "    if (hf_redeclare(ctx, prop, def_flags, (def_flags & DEFINE_GLOBAL_LEX_VAR) != 0) < 0)\n        return -1;\n"
            "    if (def_flags & DEFINE_GLOBAL_LEX_VAR) {"
        ),
    ),
    (
        "quickjs.c",
        "the same for functions",
        "    flags = JS_PROP_HAS_VALUE | JS_PROP_THROW;\n",
        (
            "    if (hf_redeclare(ctx, prop, JS_PROP_CONFIGURABLE, false) < 0)\n        return -1;\n"
            "    prs = find_own_property1(p, prop);\n    flags = JS_PROP_HAS_VALUE | JS_PROP_THROW;\n"
        ),
    ),
    (
        "quickjs.c",
        "the object that holds the value of a snippet must not inherit: a setter or a `then` on Object.prototype would get the value",
        "emit_op(s, OP_object);\n                emit_op(s, OP_dup);",
        (
            "emit_op(s, OP_object);\n                emit_op(s, OP_null);\n                emit_op(s, OP_set_proto);\n"
            "                emit_op(s, OP_dup);"
        ),
        2,
    ),
    (
        "quickjs.c",
        "stack texts begin with name and message, as programs that print them expect",
        "js_dbuf_init(ctx, &dbuf);",
        "js_dbuf_init(ctx, &dbuf);\n        hf_stack_header(ctx, error_val, &dbuf);",
    ),
    (
        "quickjs.c",
        "and end without a line feed",
        "stack = JS_NewStringLen(ctx, (char *)dbuf.buf, dbuf.size);",
        "stack = JS_NewStringLen(ctx, (char *)dbuf.buf, dbuf.size - (dbuf.size && dbuf.buf[dbuf.size - 1] == '\\n'));",
    ),
    (
        "quickjs.c",
        "a bad regular expression in the source has its place: outside of functions the error has a stack already, without one",
        "/* add the line number info */",
        "/* add the line number info */\n                hf_stack_forget(s->ctx, s->ctx->rt->current_exception);",
    ),
    (
        "quickjs.c",
        "stack traces name what the user wrote, not the prelude, which is compiled without debug information",
        "backtrace_barrier = b->backtrace_barrier;",
        "backtrace_barrier = b->backtrace_barrier;\n            if (!b->filename)\n                continue;",
    ),
    (
        "quickjs.c",
        "an execution may be abandoned: everything that could run its code later knows which one it belongs to. First jobs",
        "    int argc;\n    JSValue argv[];\n} JSJobEntry;",
        "    int argc;\n    uint32_t hf_owner;\n    JSValue argv[];\n} JSJobEntry;",
    ),
    (
        "quickjs.c",
        "a job belongs to whoever asks for it",
        "e->job_func = job_func;",
        "e->job_func = job_func;\n    e->hf_owner = hf_owner;",
    ),
    (
        "quickjs.c",
        "and so does what it asks for in turn",
        "    res = e->job_func(e->ctx, e->argc, vc(e->argv));",
        (
            "    uint32_t hf_before = hf_owner;\n    hf_owner = e->hf_owner;\n"
            "    res = e->job_func(e->ctx, e->argc, vc(e->argv));\n    hf_owner = hf_before;"
        ),
    ),
    (
        "quickjs.c",
        "then reactions of promises, which are all that waits: await, then, and modules",
        "    JSValue handler;\n} JSPromiseReactionData;",
        "    JSValue handler;\n    uint32_t hf_owner;\n} JSPromiseReactionData;",
    ),
    (
        "quickjs.c",
        "a reaction belongs to who waits",
        "rd->handler = js_dup(handler);",
        "rd->handler = js_dup(handler);\n        rd->hf_owner = hf_owner;",
    ),
    (
        "quickjs.c",
        "and not to who settles the promise",
        "        JS_EnqueueJob(ctx, promise_reaction_job, 5, args);\n        list_del(&rd->link);",
        (
            "        uint32_t hf_before = hf_owner;\n        hf_owner = rd->hf_owner;\n"
            "        JS_EnqueueJob(ctx, promise_reaction_job, 5, args);\n        hf_owner = hf_before;\n        list_del(&rd->link);"
        ),
    ),
    (
        "quickjs.c",
        "then modules, which wait for those that they import",
        "    bool async_evaluation;\n",
        "    bool async_evaluation;\n    uint32_t hf_owner;\n",
    ),
    (
        "quickjs.c",
        "a module belongs to who evaluates it",
        "m1->status = JS_MODULE_STATUS_EVALUATING_ASYNC;",
        "m1->status = JS_MODULE_STATUS_EVALUATING_ASYNC;\n                m1->hf_owner = hf_owner;",
    ),
]

# The check of the stack counts bytes in linear memory. Recursion that keeps little there overflows the host's stack first, where nobody
# can say by how much: such functions get some ballast. Measured: at most 3 bytes of the host's stack for one that is counted.
BALLAST = [
    ("JSON.parse", "json_parse_value(JSParseState *s, JSONParseRecord *pr)\n{", 96),
    ("JSON.stringify", "bool has_content;\n", 96),
    ("Array.prototype.flat", "int present, is_array;\n", 64),
    ("the parser, operators", "int js_parse_unary(JSParseState *s, int parse_flags)\n{", 96),
    ("the parser, brackets", "js_parse_assign_expr2(JSParseState *s, int parse_flags)\n{", 768),
    ("proxies of proxies", "js_proxy_getPrototypeOf(JSContext *ctx, JSValueConst obj)\n{", 64),
]

EDITS += [("quickjs.c", f"ballast for {what}", old, f"{old}    HF_BALLAST({size});\n") for what, old, size in BALLAST]

APPEND = {"quickjs.c": "internals.c"}

PRELUDE = "prelude.bundle.js"

BUNDLE = [
    "node_modules/.bin/esbuild",
    "prelude/index.js",
    "--bundle",
    "--format=iife",
    "--target=es2023",
    "--platform=neutral",
    "--main-fields=module,main",
    "--conditions=import",
    "--alias:tr46=./prelude/domains.cjs",
    "--charset=utf8",
    "--keep-names",
    "--minify-whitespace",
    "--legal-comments=inline",
    "--log-level=warning",
    f"--outfile={PRELUDE}",
]

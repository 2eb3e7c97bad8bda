/* The runtime: how it is made, seeded, limited, and cleaned. */
#include <string.h>

#include "guest.h"

extern unsigned char hf_prelude_source[];
extern const unsigned hf_prelude_source_size;

struct guest guest;

/* ---- memory --------------------------------------------------------------------------------------------------------------- */

static void *js_hf_calloc(void *unused, size_t count, size_t size) { return (void)unused, hf_calloc(count, size); }
static void *js_hf_malloc(void *unused, size_t size) { return (void)unused, hf_malloc(size); }
static void js_hf_free(void *unused, void *block) { (void)unused, hf_free(block); }
static void *js_hf_realloc(void *unused, void *block, size_t size) { return (void)unused, hf_realloc(block, size); }

static const JSMallocFunctions allocator = {js_hf_calloc, js_hf_malloc, js_hf_free, js_hf_realloc, hf_usable_size};

enum { SLACK = 1 << 20 }; /* how much more than twice the last size is worth a collection */
static size_t collected;  /* in use after the last collection */

static void collect(void) {
    JS_RunGC(guest.rt);
    collected = hf_memory_in_use(guest.rt);
    JS_SetGCThreshold(guest.rt, collected + collected / 2 + SLACK);
}

void hf_language_settle(void) {
    if (hf_memory_in_use(guest.rt) > collected * 2 + SLACK) collect();
}

void guest_baseline(void) {
    collect();
    guest_clock_starts(false);
}

/* ---- limits and randomness ------------------------------------------------------------------------------------------------ */

void hf_language_seed(uint64_t seed) { hf_random_seed(guest.ctx, seed); }

/* The stack that QuickJS counts is the one in linear memory, 2 MB. Each of its frames also takes some of the host's stack for
 * WebAssembly: at most about three times as much in what was tried, which fits into 5 MB. */
void hf_language_stack(uint32_t kilobytes) {
    enum { DEFAULT = 1024, MOST = 1536, LEAST = 32 };
    if (!kilobytes) kilobytes = DEFAULT;
    if (kilobytes > MOST) kilobytes = MOST;
    if (kilobytes < LEAST) kilobytes = LEAST;
    JS_UpdateStackTop(guest.rt);
    JS_SetMaxStackSize(guest.rt, kilobytes * 1024);
}

/* ---- help ----------------------------------------------------------------------------------------------------------------- */

void guest_define(JSValueConst object, const char *name, JSValue value) {
    JS_DefinePropertyValueStr(guest.ctx, object, name, value, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
}

JSValue guest_function(JSCFunction *function, const char *name, int length) {
    return JS_NewCFunction(guest.ctx, function, name, length);
}

/* ---- boot ----------------------------------------------------------------------------------------------------------------- */

static JSValue method(JSValueConst constructor, const char *name) {
    JSValue prototype = JS_GetPropertyStr(guest.ctx, constructor, "prototype");
    JSValue function = JS_GetPropertyStr(guest.ctx, prototype, name);
    JS_FreeValue(guest.ctx, prototype);
    return function;
}

static void capture(void) {
    JSContext *ctx = guest.ctx;
    guest.bigint = JS_GetPropertyStr(ctx, guest.global, "BigInt");
    guest.map = JS_GetPropertyStr(ctx, guest.global, "Map");
    guest.set = JS_GetPropertyStr(ctx, guest.global, "Set");
    guest.map_set = method(guest.map, "set");
    guest.set_add = method(guest.set, "add");
    guest.dollar = JS_NewAtom(ctx, "$");
    guest.value = JS_NewAtom(ctx, "value");
    guest.to_json = JS_NewAtom(ctx, "toJSON");
    guest.name = JS_NewAtom(ctx, "name");
    guest.message = JS_NewAtom(ctx, "message");
    guest.stack = JS_NewAtom(ctx, "stack");
    guest.code = JS_NewAtom(ctx, "code");
    guest.cause = JS_NewAtom(ctx, "cause");
    guest.prototype = JS_NewAtom(ctx, "prototype");
    guest.schema = JS_NewAtom(ctx, "schema");
}

/* The guest was built wrong: the host finds the reason among the records. */
static _Noreturn void give_up(void) {
    hf_buffer record = {0};
    hf_put_text(&record, "[\"error\",");
    guest_put_error(&record, JS_GetException(guest.ctx));
    hf_put_char(&record, ']');
    hf_outcome(&record);
    __builtin_trap();
}

/* [state, result] of a promise, which JavaScript cannot see: 0 pending, 1 fulfilled, 2 rejected. */
static JSValue js_promise_details(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSValue pair[] = {JS_NewInt32(ctx, JS_PromiseState(ctx, argv[0])), JS_PromiseResult(ctx, argv[0])};
    return JS_NewArrayFrom(ctx, 2, pair);
}

/* Each function would keep its source, and so that of all functions in it. Without sources and lines the image is smaller, and stack
 * traces leave the prelude out. */
static JSValue compile_prelude(void) {
    JSContext *ctx = guest.ctx;
    const int flags = JS_WRITE_OBJ_BYTECODE | JS_WRITE_OBJ_STRIP_SOURCE | JS_WRITE_OBJ_STRIP_DEBUG;
    JSValue whole = JS_Eval(ctx, (const char *)hf_prelude_source, hf_prelude_source_size, "holdfast:prelude",
                            JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_COMPILE_ONLY);
    if (JS_IsException(whole)) return whole;
    memset(hf_prelude_source, 0, hf_prelude_source_size); /* nobody reads it again, and in an image zeros take no room */
    size_t size;
    uint8_t *written = JS_WriteObject(ctx, &size, whole, flags);
    JS_FreeValue(ctx, whole);
    JSValue stripped = JS_ReadObject(ctx, written, size, JS_READ_OBJ_BYTECODE);
    js_free(ctx, written);
    return stripped;
}

/* Runs our own JavaScript. It finds `native` in a global that is gone afterwards, and leaves its functions there. */
static void run_prelude(void) {
    static const char name[] = "__holdfast";
    JSContext *ctx = guest.ctx;
    JSAtom atom = JS_NewAtom(ctx, name);
    JSValue native = JS_NewObject(ctx);
    guest_define(native, "promiseDetails", guest_function(js_promise_details, "promiseDetails", 1));
    guest_library_boot(native);
    guest_define(guest.global, name, JS_DupValue(ctx, native));
    JSValue compiled = compile_prelude();
    JSValue result = JS_IsException(compiled) ? compiled : JS_EvalFunction(ctx, compiled);
    if (JS_IsException(result)) give_up();
    JS_DeleteProperty(ctx, guest.global, atom, 0);
    guest.inspect = JS_GetPropertyStr(ctx, native, "inspect");
    guest.format = JS_GetPropertyStr(ctx, native, "format");
    guest.ask_model = JS_GetPropertyStr(ctx, native, "askModel");
    JS_FreeAtom(ctx, atom);
    JS_FreeValues(ctx, native, result);
}

void hf_language_boot(void) {
    guest.rt = JS_NewRuntime2(&allocator, NULL);
    guest.ctx = JS_NewContext(guest.rt);
    guest.global = JS_GetGlobalObject(guest.ctx);
    JS_SetCanBlock(guest.rt, false);
    hf_language_stack(0);
    capture();
    guest_rejections_boot();
    guest_modules_boot();
    guest_timers_boot();
    guest_console_boot();
    guest_bridge_boot();
    guest_require_boot();
    run_prelude();
    guest_run_jobs();
    guest_globals_boot();
    guest_baseline();
}

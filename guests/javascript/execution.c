/* Executions: what each request does, and what a step ends with. See guest.h for the whole picture. */
#include <math.h>
#include <string.h>

#include "guest.h"

enum { ZERO_DELAY_MAX = 1000 }; /* timers fired in one step: a loop of setTimeout(f, 0) pauses now and then, so that answers get in */

enum shape { BARE, WRAPPED, MODULE, ADOPTED }; /* how the value is held: as it is, as {value}, as the default export, or the promise
                                                  was the value of a script that has ended */

static struct {
    uint32_t number;
    bool running, is_file;
    enum shape shape;
    JSValue promise;
    JSModuleDef *module;
} execution;

uint32_t guest_execution(void) { return execution.number; }

void guest_run_jobs(void) {
    JSContext *ctx;
    int ran;
    while ((ran = JS_ExecutePendingJob(guest.rt, &ctx)) != 0) {
        if (ran > 0) continue;
        JSValue thrown = JS_GetException(ctx); /* by queueMicrotask */
        guest_unhandled(thrown);
        JS_FreeValue(ctx, thrown);
    }
}

static void run_all(void) {
    guest_run_jobs();
    for (int fired = 0; fired < ZERO_DELAY_MAX && guest_timer_fire(); fired++) guest_run_jobs();
}

/* ---- outcomes ------------------------------------------------------------------------------------------------------------- */

/* Ends the execution: `record` is its outcome, `result` what the record was made from. */
static void end(hf_buffer *record, JSValue result) {
    JSValue own = execution.promise;
    execution.running = false;
    execution.promise = JS_UNDEFINED;
    execution.module = NULL;
    guest_rejections_report(own); /* may run getters of the script, which may ask: so before queries are cancelled */
    guest_queries_cancel();
    hf_outcome(record);
    JS_FreeValues(guest.ctx, own, result);
}

static void end_with_error(JSValue thrown) {
    hf_buffer record = {0};
    hf_put_text(&record, "[\"error\",");
    guest_put_error(&record, thrown);
    hf_put_char(&record, ']');
    end(&record, thrown);
}

static void end_with_value(JSValue value) {
    hf_buffer record = {0}, preview = {0};
    hf_put_text(&record, "[\"value\",");
    guest_put_type(&record, value);
    hf_put_char(&record, ',');
    guest_put_preview(&preview, value, HF_PREVIEW_MAX);
    hf_put_string(&record, preview.data, preview.length);
    hf_buffer_free(&preview);
    if (guest_has_json(value)) {
        hf_put_char(&record, ',');
        guest_encode(&record, value);
    }
    hf_put_char(&record, ']');
    end(&record, value);
}

static void wait_on(void) {
    hf_buffer record = {0};
    guest_rejections_report(execution.promise);
    double wake = guest_timers_wake();
    hf_execution_waits();
    hf_put_text(&record, "[\"pending\",");
    if (isnan(wake))
        hf_put_text(&record, "null");
    else
        guest_put_number(&record, wake);
    hf_put_char(&record, ',');
    guest_put_queries(&record);
    hf_put_char(&record, ']');
    hf_outcome(&record);
}

/* ---- looking at the promise ----------------------------------------------------------------------------------------------- */

static JSValue value_of(JSValue result) {
    JSContext *ctx = guest.ctx;
    JSValue value = result;
    if (execution.shape == WRAPPED) {
        value = JS_IsObject(result) ? hf_own_data(ctx, result, guest.value) : JS_UNDEFINED;
        JS_FreeValue(ctx, result);
    } else if (execution.shape == MODULE) {
        JS_FreeValue(ctx, result);
        JSValue namespace = JS_GetModuleNamespace(ctx, execution.module);
        value = JS_GetPropertyStr(ctx, namespace, "default");
        JS_FreeValue(ctx, namespace);
        if (JS_IsException(value)) JS_FreeValue(ctx, JS_GetException(ctx)); /* a cycle left it uninitialised */
        if (JS_IsException(value)) value = JS_UNDEFINED;
    }
    return value;
}

/* `main()` at the end of a file: the file is done when that is. */
static bool adopt(JSValue value) {
    if (!execution.is_file || execution.shape == ADOPTED || !JS_IsPromise(value)) return false;
    JS_FreeValue(guest.ctx, execution.promise);
    execution.promise = value;
    execution.shape = ADOPTED;
    return true;
}

static void go_on(void) {
    JSContext *ctx = guest.ctx;
    run_all();
    for (;;) {
        JSPromiseStateEnum state = JS_PromiseState(ctx, execution.promise);
        if (state == JS_PROMISE_PENDING) break;
        JSValue result = JS_PromiseResult(ctx, execution.promise);
        if (state == JS_PROMISE_REJECTED) {
            end_with_error(result);
            return;
        }
        JSValue value = value_of(result);
        if (adopt(value)) continue;
        if (execution.is_file && guest_timers_of(execution.number)) {
            JS_FreeValue(ctx, value);
            wait_on();
            return;
        }
        end_with_value(value);
        return;
    }
    if (guest_queries_open() || !isnan(guest_timers_wake()))
        wait_on();
    else if (execution.shape == ADOPTED)
        end_with_value(JS_DupValue(ctx, execution.promise));
    else
        end_with_error(guest_error("DeadlockError", "nothing can settle what the script waits for: no query is open and no timer is set",
                                   "NOTHING_TO_WAIT_FOR"));
}

/* `started`: the promise, or an exception. */
static void begin(JSValue started, enum shape shape, bool is_file) {
    execution.shape = shape;
    execution.is_file = is_file;
    execution.running = true;
    if (JS_IsException(started)) {
        execution.promise = JS_UNDEFINED;
        JSValue thrown = JS_GetException(guest.ctx);
        run_all();
        end_with_error(thrown);
        return;
    }
    execution.promise = started;
    go_on();
}

/* ---- requests ------------------------------------------------------------------------------------------------------------- */

enum { SCRIPT_FLAGS = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_ASYNC };

static bool starts_with_brace(const char *source) { return source[strspn(source, " \t\r\n")] == '{'; }

/* `{a: 1}` is an object for people, and a block for the grammar. */
static JSValue compile_expression(const char *source, size_t length, const char *name) {
    hf_buffer text = {0};
    hf_put_char(&text, '(');
    hf_put(&text, source, length);
    hf_put(&text, "\n)", 3);
    JSValue compiled = JS_Eval(guest.ctx, text.data, text.length - 1, name, SCRIPT_FLAGS | JS_EVAL_FLAG_COMPILE_ONLY);
    hf_buffer_free(&text);
    return compiled;
}

static JSValue evaluate(const char *source, size_t length, const char *name) {
    JSContext *ctx = guest.ctx;
    if (starts_with_brace(source)) {
        JSValue compiled = compile_expression(source, length, name);
        if (!JS_IsException(compiled)) return JS_EvalFunction(ctx, compiled);
        JS_FreeValue(ctx, JS_GetException(ctx));
    }
    return JS_Eval(ctx, source, length, name, SCRIPT_FLAGS);
}

static bool is_named_module(const char *name) {
    size_t length = strlen(name);
    return length > 4 && !strcmp(name + length - 4, ".mjs");
}

/* A file that is no script may be a module; if it is neither, the error of the one that it looks like is told. */
static JSValue run_file(const char *source, size_t length, const char *name, enum shape *shape) {
    JSContext *ctx = guest.ctx;
    JSValue compiled, first = JS_UNDEFINED;
    *shape = WRAPPED;
    if (!is_named_module(name)) {
        compiled = JS_Eval(ctx, source, length, name, SCRIPT_FLAGS | JS_EVAL_FLAG_COMPILE_ONLY);
        if (!JS_IsException(compiled)) return JS_EvalFunction(ctx, compiled);
        first = JS_GetException(ctx);
    }
    compiled = guest_compile_module(source, length, name);
    if (JS_IsException(compiled)) {
        bool by_keyword = memmem(source, length, "import", 6) || memmem(source, length, "export", 6);
        if (by_keyword || JS_IsUndefined(first))
            JS_FreeValue(ctx, first);
        else {
            JS_FreeValue(ctx, JS_GetException(ctx));
            JS_Throw(ctx, first);
        }
        return JS_EXCEPTION;
    }
    JS_FreeValue(ctx, first);
    *shape = MODULE;
    execution.module = JS_VALUE_GET_PTR(compiled);
    return JS_EvalFunction(ctx, compiled);
}

static JSValue decoded(const hf_part *part) {
    JSValue value = part->length ? guest_decode(part->data, part->length) : JS_NULL;
    if (!JS_IsException(value)) return value;
    JS_FreeValue(guest.ctx, JS_GetException(guest.ctx));
    return JS_NULL;
}

/* In the place of what an earlier execution has declared by this name, whichever way. */
static void set_global(const char *name, JSValueConst value) {
    JSContext *ctx = guest.ctx;
    JSAtom atom = JS_NewAtom(ctx, name);
    int done = hf_redeclare(ctx, atom, JS_PROP_CONFIGURABLE, false);
    if (done == 0)
        done = JS_DefinePropertyValue(ctx, guest.global, atom, JS_DupValue(ctx, value), JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    if (done == 0) done = JS_DefineProperty(ctx, guest.global, atom, value, JS_UNDEFINED, JS_UNDEFINED, JS_PROP_HAS_VALUE);
    if (done < 0) JS_FreeValue(ctx, JS_GetException(ctx));
    JS_FreeAtom(ctx, atom);
}

/* What a file is given: its arguments, and if it has an environment both by short names too. */
static void set_given(const hf_part *parts, uint32_t count) {
    JSValue arguments = count > 2 ? decoded(&parts[2]) : JS_NULL;
    set_global("__ARGS__", arguments);
    if (count > 3) {
        JSValue environment = decoded(&parts[3]);
        set_global("args", arguments);
        set_global("__ENV__", environment);
        set_global("env", environment);
        JS_FreeValue(guest.ctx, environment);
    }
    JS_FreeValue(guest.ctx, arguments);
}

static bool readable(const hf_part *parts, uint32_t count, uint32_t least) {
    if (count < least) {
        hf_refuse("BAD_REQUEST", "the request has too few parts");
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (hf_is_utf8(parts[i].data, parts[i].length)) continue;
        hf_refuse("INVALID_UTF8", "the request is not valid UTF-8");
        return false;
    }
    return true;
}

static void start(enum hf_op op, const hf_part *parts, uint32_t count) {
    if (!readable(parts, count, 2)) return;
    hf_execution_begins();
    hf_owner = ++execution.number;
    run_all(); /* what came due between the executions */
    char *source = guest_copy(parts[0].data, parts[0].length), *name = guest_copy(parts[1].data, parts[1].length);
    enum shape shape = WRAPPED;
    JSValue started;
    if (op == HF_EVALUATE)
        started = evaluate(source, parts[0].length, name);
    else {
        set_given(parts, count);
        started = run_file(source, parts[0].length, name, &shape);
    }
    hf_free(source);
    hf_free(name);
    begin(started, shape, op == HF_RUN_FILE);
}

/* ---- calls ---------------------------------------------------------------------------------------------------------------- */

/* The function by a name like `a.b.c`, and what it is called on. */
static JSValue look_up(const char *name, JSValue *this) {
    JSContext *ctx = guest.ctx;
    const char *end = strchr(name, '.');
    JSAtom atom = JS_NewAtomLen(ctx, name, end ? (size_t)(end - name) : strlen(name));
    JSValue found = hf_global(ctx, atom);
    JS_FreeAtom(ctx, atom);
    *this = JS_UNDEFINED;
    while (end && !JS_IsException(found) && !JS_IsUndefined(found) && !JS_IsNull(found)) {
        const char *part = end + 1;
        end = strchr(part, '.');
        atom = JS_NewAtomLen(ctx, part, end ? (size_t)(end - part) : strlen(part));
        JS_FreeValue(ctx, *this);
        *this = found;
        found = JS_GetProperty(ctx, found, atom);
        JS_FreeAtom(ctx, atom);
    }
    return found;
}

static JSValue apply(JSValueConst function, JSValueConst this, JSValueConst list) {
    JSContext *ctx = guest.ctx;
    int64_t length = 0;
    JS_GetLength(ctx, list, &length);
    JSValue *arguments = hf_malloc((size_t)length * sizeof *arguments);
    for (int64_t i = 0; i < length; i++) arguments[i] = JS_GetPropertyInt64(ctx, list, i);
    JSValue result = JS_Call(ctx, function, this, (int)length, (JSValueConst *)arguments);
    for (int64_t i = 0; i < length; i++) JS_FreeValue(ctx, arguments[i]);
    hf_free(arguments);
    return result;
}

/* A promise of the result, settled if the result is plain. */
static JSValue promise_of(JSValue result) {
    JSContext *ctx = guest.ctx;
    if (JS_IsPromise(result) || JS_IsException(result)) return result;
    JSValue promise;
    if (JS_IsObject(result)) { /* it may be a thenable */
        JSValue resolving[2];
        promise = JS_NewPromiseCapability(ctx, resolving);
        JS_FreeValue(ctx, JS_Call(ctx, resolving[0], JS_UNDEFINED, 1, (JSValueConst *)&result));
        JS_FreeValues(ctx, resolving[0], resolving[1]);
    } else {
        promise = hf_promise(ctx);
        hf_promise_settle(ctx, promise, result, false);
    }
    JS_FreeValue(ctx, result);
    return promise;
}

static void call(const hf_part *parts, uint32_t count) {
    JSContext *ctx = guest.ctx;
    if (!readable(parts, count, 2)) return;
    JSValue list = guest_decode(parts[1].data, parts[1].length), this;
    if (!JS_IsArray(list)) {
        if (JS_IsException(list)) JS_FreeValue(ctx, JS_GetException(ctx));
        JS_FreeValue(ctx, list);
        hf_refuse("BAD_REQUEST", "the arguments are not a JSON array");
        return;
    }
    hf_execution_begins();
    hf_owner = ++execution.number;
    run_all();
    char *name = guest_copy(parts[0].data, parts[0].length);
    JSValue function = look_up(name, &this), started;
    if (JS_IsException(function))
        started = JS_EXCEPTION;
    else if (!JS_IsFunction(ctx, function)) {
        hf_buffer message = {0};
        hf_put(&message, name, hf_clip(name, parts[0].length, 100));
        hf_put(&message, " is not a function", 19);
        started = JS_Throw(ctx, guest_error("TypeError", message.data, "NOT_A_FUNCTION"));
        hf_buffer_free(&message);
    } else
        started = promise_of(apply(function, this, list));
    JS_FreeValues(ctx, function, this, list);
    hf_free(name);
    begin(started, BARE, false);
}

/* ---- the step ------------------------------------------------------------------------------------------------------------- */

static void end_with_nothing(void) {
    hf_buffer record = {0};
    hf_put_text(&record, "[\"value\",\"undefined\",\"undefined\",{\"$\":\"undefined\"}]");
    hf_outcome(&record);
}

static void seal(void) {
    guest_baseline();
    hf_arenas_seal(guest.rt);
    end_with_nothing();
}

/* Nothing is settled, so nothing of the script hears of it: whatever waits for this execution, or in it, is freed. */
static void abandon(void) {
    JSValue own = execution.promise;
    execution.running = false;
    execution.promise = JS_UNDEFINED;
    execution.module = NULL;
    hf_abandon(guest.ctx, execution.number);
    guest_timers_drop(execution.number);
    guest_queries_drop();
    JS_FreeValue(guest.ctx, own);
    end_with_nothing();
}

void hf_language_step(enum hf_op op, const hf_part *parts, uint32_t count) {
    bool waiting = execution.running;
    if (op == HF_GLOBALS) {
        guest_globals();
        return;
    }
    if (op != HF_SEAL) guest_clock_starts(true);
    if ((op == HF_RESUME || op == HF_ABANDON) && !waiting)
        hf_refuse("NOT_PENDING", "no execution waits");
    else if (op == HF_RESUME) {
        if (guest_answer(parts, count)) go_on();
    } else if (op == HF_ABANDON)
        abandon();
    else if (waiting)
        hf_refuse("EXECUTION_PENDING", "an execution waits: answer its queries or cancel it");
    else if (op == HF_EVALUATE || op == HF_RUN_FILE)
        start(op, parts, count);
    else if (op == HF_CALL)
        call(parts, count);
    else if (op == HF_SEAL)
        seal();
    else
        hf_refuse("BAD_REQUEST", "the operation is unknown");
}

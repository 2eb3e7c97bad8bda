/* The global object `hf`: how a script asks, and how it calls the host. */
#include <string.h>

#include "guest.h"

/* ---- the host ------------------------------------------------------------------------------------------------------------- */

JSValue guest_host(char operation, const hf_buffer *arguments) {
    JSContext *ctx = guest.ctx;
    char *reply;
    size_t length;
    char status = hf_host(operation, arguments, &reply, &length);
    JSValue value = operation == HF_HOST_CALL ? guest_decode(reply, length) : guest_parse(reply, length);
    hf_free(reply);
    if (status == 'v' || JS_IsException(value)) return value;
    JSValue error = guest_error_from(value);
    JS_FreeValue(ctx, value);
    return JS_Throw(ctx, error);
}

JSValue guest_host_call(const char *name, size_t length, int argc, JSValueConst *argv) {
    hf_buffer request = {0};
    hf_put_char(&request, '[');
    hf_put_string(&request, name, length);
    hf_put_text(&request, ",[");
    for (int i = 0; i < argc; i++) {
        if (i) hf_put_char(&request, ',');
        guest_encode(&request, argv[i]);
    }
    hf_put_text(&request, "]]");
    JSValue result = guest_host(HF_HOST_CALL, &request);
    hf_buffer_free(&request);
    return result;
}

static JSValue js_call(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t length;
    if (argc < 1 || !JS_IsString(argv[0])) return JS_ThrowTypeError(ctx, "the name of a host function must be a string");
    const char *name = JS_ToCStringLen(ctx, &length, argv[0]);
    JSValue result = guest_host_call(name, length, argc - 1, argv + 1);
    JS_FreeCString(ctx, name);
    return result;
}

static JSValue js_named_call(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int magic, JSValueConst *data) {
    size_t length;
    const char *name = JS_ToCStringLen(ctx, &length, data[0]);
    JSValue result = guest_host_call(name, length, argc, argv);
    JS_FreeCString(ctx, name);
    return result;
}

JSValue guest_host_functions(JSValueConst names, JSValueConst module) {
    JSContext *ctx = guest.ctx;
    JSValue functions = JS_NewObject(ctx);
    int64_t count = 0;
    if (JS_IsArray(names)) JS_GetLength(ctx, names, &count);
    for (int64_t i = 0; i < count; i++) {
        JSValue name = JS_GetPropertyInt64(ctx, names, i);
        hf_buffer full = {0};
        guest_put_plain(&full, module);
        hf_put_char(&full, '.');
        guest_put_plain(&full, name);
        JSAtom atom = JS_ValueToAtom(ctx, name);
        const char *shown = JS_AtomToCString(ctx, atom);
        JSValue called = JS_NewStringLen(ctx, full.data, full.length);
        JSValue function = JS_NewCFunctionData2(ctx, js_named_call, shown, 0, 0, 1, (JSValueConst *)&called);
        JS_FreezeObject(ctx, function);
        JS_DefinePropertyValue(ctx, functions, atom, function, JS_PROP_ENUMERABLE);
        hf_buffer_free(&full);
        JS_FreeCString(ctx, shown);
        JS_FreeAtom(ctx, atom);
        JS_FreeValues(ctx, called, name);
    }
    JS_FreezeObject(ctx, functions);
    return functions;
}

/* ---- queries -------------------------------------------------------------------------------------------------------------- */

/* Options may be written as JavaScript writes names. Outside they have one name, whatever the language. */
static struct {
    const char *here, *outside;
    JSAtom from, to;
} renamed[] = {{.here = "maxTokens", .outside = "max_tokens"}, {.here = "timeoutMs", .outside = "timeout_ms"}};

static JSAtom outward(JSAtom name) {
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (renamed[i].from == name) return renamed[i].to;
    return name;
}

/* Copies the own properties of `options`, which is the script's: its getters run here, and may throw. */
static int merge(JSValueConst payload, JSValueConst options) {
    JSContext *ctx = guest.ctx;
    JSPropertyEnum *names;
    uint32_t count;
    int failed = 0;
    if (!JS_IsObject(options)) return 0;
    if (JS_GetOwnPropertyNames(ctx, &names, &count, options, JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY) < 0) return -1;
    for (uint32_t i = 0; i < count && !failed; i++) {
        JSValue value = JS_GetProperty(ctx, options, names[i].atom);
        failed = JS_IsException(value);
        JSAtom name = outward(names[i].atom);
        if (!failed && JS_HasProperty(ctx, payload, name) == 0)
            JS_DefinePropertyValue(ctx, payload, name, value, JS_PROP_C_W_E);
        else
            JS_FreeValue(ctx, value);
    }
    JS_FreePropertyEnum(ctx, names, count);
    return failed ? -1 : 0;
}

static void set(JSValueConst payload, const char *name, JSValueConst value) {
    JS_DefinePropertyValueStr(guest.ctx, payload, name, JS_DupValue(guest.ctx, value), JS_PROP_C_W_E);
}

/* What must fit a schema is checked, and asked for again, by the library. */
static bool has_schema(JSValueConst payload) {
    JSValue schema = hf_own_data(guest.ctx, payload, guest.schema);
    bool found = !JS_IsUndefined(schema) && !JS_IsNull(schema);
    JS_FreeValue(guest.ctx, schema);
    return found;
}

static JSValue ask(const char *kind, JSValue payload, JSValueConst options) {
    JSContext *ctx = guest.ctx;
    JSValue promise = JS_EXCEPTION;
    bool read = merge(payload, options) == 0;
    if (read && !strcmp(kind, "llm") && has_schema(payload))
        promise = JS_Call(ctx, guest.ask_model, JS_UNDEFINED, 1, (JSValueConst *)&payload);
    else if (read) {
        JSValue text = JS_NewString(ctx, kind);
        promise = guest_ask(text, payload);
        JS_FreeValue(ctx, text);
    }
    JS_FreeValue(ctx, payload);
    return promise;
}

static JSValue js_query(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return guest_ask(argv[0], argc > 1 ? argv[1] : JS_NULL);
}

/* What the first argument of each shorthand is called in its payload. */
static const struct shorthand {
    const char *kind, *text, *list;
} shorthands[] = {{"llm", "prompt", "messages"}, {"ask", "question", NULL}, {"approve", "question", NULL}};

static JSValue js_shorthand(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int magic) {
    const struct shorthand *s = &shorthands[magic];
    JSValueConst first = argv[0], options = argc > 1 ? argv[1] : JS_UNDEFINED;
    JSValue payload = JS_NewObjectProto(ctx, JS_NULL);
    if (JS_IsString(first))
        set(payload, s->text, first);
    else if (JS_IsArray(first) && s->list)
        set(payload, s->list, first);
    else if (JS_IsObject(first) && !JS_IsFunction(ctx, first)) {
        if (merge(payload, first) < 0) {
            JS_FreeValue(ctx, payload);
            return JS_EXCEPTION;
        }
    } else {
        JS_FreeValue(ctx, payload);
        return JS_ThrowTypeError(ctx, "%s: the %s must be a string%s", s->kind, s->text, s->list ? " or an array of messages" : "");
    }
    return ask(s->kind, payload, options);
}

static JSValue js_tool(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    if (!JS_IsString(argv[0])) return JS_ThrowTypeError(ctx, "tool: the name must be a string");
    JSValue payload = JS_NewObjectProto(ctx, JS_NULL), none = JS_NewObjectProto(ctx, JS_NULL);
    set(payload, "name", argv[0]);
    set(payload, "args", argc > 1 && !JS_IsUndefined(argv[1]) ? argv[1] : none);
    JS_FreeValue(ctx, none);
    return ask("tool", payload, argc > 2 ? argv[2] : JS_UNDEFINED);
}

static JSValue js_sleep(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    double milliseconds;
    if (JS_ToFloat64(ctx, &milliseconds, argv[0])) return JS_EXCEPTION;
    return guest_sleep(milliseconds);
}

/* ---- boot ----------------------------------------------------------------------------------------------------------------- */

void guest_bridge_boot(void) {
    JSContext *ctx = guest.ctx;
    JSValue hf = JS_NewObject(ctx);
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        renamed[i].from = JS_NewAtom(ctx, renamed[i].here);
        renamed[i].to = JS_NewAtom(ctx, renamed[i].outside);
    }
    struct {
        const char *name;
        JSValue function;
    } all[] = {{"query", guest_function(js_query, "query", 2)},
               {"tool", guest_function(js_tool, "tool", 2)},
               {"sleep", guest_function(js_sleep, "sleep", 1)},
               {"call", guest_function(js_call, "call", 1)}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        JS_FreezeObject(ctx, all[i].function);
        JS_DefinePropertyValueStr(ctx, hf, all[i].name, all[i].function, JS_PROP_ENUMERABLE);
    }
    for (int i = 0; i < 3; i++) {
        const char *name = shorthands[i].kind;
        JSValue function = JS_NewCFunctionMagic(ctx, js_shorthand, name, 2, JS_CFUNC_generic_magic, i);
        JS_FreezeObject(ctx, function);
        guest_define(guest.global, name, JS_DupValue(ctx, function));
        JS_DefinePropertyValueStr(ctx, hf, name, function, JS_PROP_ENUMERABLE);
    }
    guest_define(guest.global, "hf", hf); /* the library adds to it, and freezes it */
}

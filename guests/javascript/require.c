/* require: CommonJS modules, JSON and host functions, by name, each once. */
#include <string.h>

#include "guest.h"

static JSValue cache; /* name: module */

static void set(JSValueConst object, const char *name, JSValue value) {
    JS_DefinePropertyValueStr(guest.ctx, object, name, value, JS_PROP_C_W_E);
}

/* ---- running a module ----------------------------------------------------------------------------------------------------- */

/* The function around a source starts on the source's first line, so that the lines of stack traces are right. */
static JSValue compile(const char *name, JSValueConst source, int flags) {
    static const char head[] = "(function (exports, require, module, __filename, __dirname) {";
    hf_buffer text = {0};
    hf_put_text(&text, head);
    guest_put_plain(&text, source);
    char *first = text.data + sizeof head - 1;
    if (text.length > sizeof head && !memcmp(first, "#!", 2)) memcpy(first, "//", 2);
    hf_put(&text, "\n})", 4);
    JSValue function = JS_Eval(guest.ctx, text.data, text.length - 1, name, JS_EVAL_TYPE_GLOBAL | flags);
    hf_buffer_free(&text);
    return function;
}

bool guest_is_commonjs(const char *name, JSValueConst source) {
    JSValue function = compile(name, source, JS_EVAL_FLAG_COMPILE_ONLY);
    bool compiled = !JS_IsException(function);
    JS_FreeValue(guest.ctx, compiled ? function : JS_GetException(guest.ctx));
    return compiled;
}

static JSValue run(const char *name, JSValueConst module, JSValueConst source) {
    JSContext *ctx = guest.ctx;
    JSValue function = compile(name, source, 0);
    if (JS_IsException(function)) return function;
    const char *slash = strrchr(name, '/');
    JSValue exports = JS_GetPropertyStr(ctx, module, "exports");
    JSValue given[] = {JS_DupValue(ctx, exports), guest_require_for(name), JS_DupValue(ctx, module), JS_NewString(ctx, name),
                       slash ? JS_NewStringLen(ctx, name, (size_t)(slash - name)) : JS_NewString(ctx, ".")};
    JSValue result = JS_Call(ctx, function, exports, 5, (JSValueConst *)given);
    for (int i = 0; i < 5; i++) JS_FreeValue(ctx, given[i]);
    JS_FreeValues(ctx, exports, function);
    return result;
}

/* Whether a line of it begins as only one of an ES module does. It is asked of what cannot be CommonJS. */
static bool has_keyword(JSValueConst source) {
    static const char *const words[] = {"import", "export"};
    hf_buffer text = {0};
    bool found = false;
    hf_put_char(&text, '\n');
    guest_put_plain(&text, source);
    for (uint32_t i = 0; i + 7 < text.length && !found; i++)
        for (int word = 0; word < 2 && text.data[i] == '\n'; word++)
            if (!memcmp(text.data + i + 1, words[word], 6) && memchr(" {*\"'", text.data[i + 7], 5)) found = true;
    hf_buffer_free(&text);
    return found;
}

static bool is_module(const char *name, JSValueConst source) { return has_keyword(source) && !guest_is_commonjs(name, source); }

static JSValue fill(const char *name, JSValueConst module, JSValueConst loaded) {
    JSContext *ctx = guest.ctx;
    JSValue kind = JS_GetPropertyStr(ctx, loaded, "kind"), source = JS_GetPropertyStr(ctx, loaded, "source");
    const char *text = JS_ToCString(ctx, kind);
    JSValue result = JS_UNDEFINED;
    if (!strcmp(text, "json")) {
        size_t length;
        const char *json = JS_ToCStringLen(ctx, &length, source);
        result = JS_ParseJSON(ctx, json, length, name);
        JS_FreeCString(ctx, json);
        if (!JS_IsException(result)) set(module, "exports", JS_DupValue(ctx, result));
    } else if (!strcmp(text, "functions")) {
        JSValue names = JS_GetPropertyStr(ctx, loaded, "names"), title = JS_NewString(ctx, name);
        set(module, "exports", guest_host_functions(names, title));
        JS_FreeValues(ctx, names, title);
    } else if (!strcmp(text, "commonjs") || !strcmp(text, "script") || (!strcmp(text, "either") && !is_module(name, source)))
        result = run(name, module, source);
    else
        result = JS_ThrowTypeError(ctx, "module '%s' cannot be required: use import", name);
    JS_FreeCString(ctx, text);
    JS_FreeValues(ctx, kind, source);
    return result;
}

JSValue guest_require(const char *name, JSValueConst known) {
    JSContext *ctx = guest.ctx;
    JSAtom atom = JS_NewAtom(ctx, name);
    JSValue module = hf_own_data(ctx, cache, atom), result = JS_UNDEFINED;
    if (!JS_IsObject(module)) {
        JSValue loaded = JS_IsUndefined(known) ? guest_load(name) : JS_DupValue(ctx, known);
        if (JS_IsException(loaded)) {
            JS_FreeAtom(ctx, atom);
            return loaded;
        }
        module = JS_NewObject(ctx);
        set(module, "id", JS_NewString(ctx, name));
        set(module, "filename", JS_NewString(ctx, name));
        set(module, "loaded", JS_FALSE);
        set(module, "exports", JS_NewObject(ctx));
        JS_DefinePropertyValue(ctx, cache, atom, JS_DupValue(ctx, module), JS_PROP_C_W_E); /* before it runs: cycles see it unfinished */
        result = fill(name, module, loaded);
        JS_FreeValue(ctx, loaded);
        if (JS_IsException(result))
            JS_DeleteProperty(ctx, cache, atom, 0);
        else
            set(module, "loaded", JS_TRUE);
    }
    if (!JS_IsException(result)) {
        JS_FreeValue(ctx, result);
        result = JS_GetPropertyStr(ctx, module, "exports");
    }
    JS_FreeAtom(ctx, atom);
    JS_FreeValue(ctx, module);
    return result;
}

/* ---- the function --------------------------------------------------------------------------------------------------------- */

static JSValue require_from(JSValueConst specifier, const char *referrer) {
    JSContext *ctx = guest.ctx;
    if (!JS_IsString(specifier)) return JS_ThrowTypeError(ctx, "require: the specifier must be a string");
    size_t length;
    const char *wanted = JS_ToCStringLen(ctx, &length, specifier);
    if (strlen(wanted) != length) {
        JS_FreeCString(ctx, wanted);
        return JS_Throw(ctx, guest_error("Error", "the name of a module must not have NUL in it", "INVALID_PATH"));
    }
    char *name = guest_resolve(wanted, referrer, "require");
    JS_FreeCString(ctx, wanted);
    if (!name) return JS_EXCEPTION;
    JSValue exports = guest_require(name, JS_UNDEFINED);
    js_free(ctx, name);
    return exports;
}

static JSValue js_require(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int magic, JSValueConst *data) {
    JSValueConst specifier = argc ? argv[0] : JS_UNDEFINED;
    if (JS_IsString(data[0])) {
        const char *referrer = JS_ToCString(ctx, data[0]);
        JSValue exports = require_from(specifier, referrer);
        JS_FreeCString(ctx, referrer);
        return exports;
    }
    JSAtom caller = JS_GetScriptOrModuleName(ctx, 1); /* the global one: relative to the file that calls it */
    const char *referrer = caller == JS_ATOM_NULL ? NULL : JS_AtomToCString(ctx, caller);
    JSValue exports = require_from(specifier, referrer ? referrer : "");
    JS_FreeCString(ctx, referrer);
    JS_FreeAtom(ctx, caller);
    return exports;
}

JSValue guest_require_for(const char *referrer) {
    JSValue data = referrer ? JS_NewString(guest.ctx, referrer) : JS_UNDEFINED;
    JSValue function = JS_NewCFunctionData2(guest.ctx, js_require, "require", 1, 0, 1, (JSValueConst *)&data);
    JS_FreeValue(guest.ctx, data);
    return function;
}

void guest_require_boot(void) {
    cache = JS_NewObjectProto(guest.ctx, JS_NULL);
    guest_define(guest.global, "require", guest_require_for(NULL));
}

/* ES modules: names and sources come from the host, which answers by name. */
#include <string.h>

#include "guest.h"

/* ---- asking the host ------------------------------------------------------------------------------------------------------ */

char *guest_resolve(const char *specifier, const char *referrer, const char *how) {
    JSContext *ctx = guest.ctx;
    const char *parts[] = {specifier, referrer, how};
    hf_buffer request = {0};
    for (int i = 0; i < 3; i++) {
        hf_put_char(&request, i ? ',' : '[');
        hf_put_string(&request, parts[i], strlen(parts[i]));
    }
    hf_put_char(&request, ']');
    JSValue reply = guest_host(HF_HOST_RESOLVE, &request);
    hf_buffer_free(&request);
    char *name = NULL;
    if (JS_IsString(reply)) {
        const char *text = JS_ToCString(ctx, reply);
        name = js_strdup(ctx, text);
        JS_FreeCString(ctx, text);
    } else if (!JS_IsException(reply))
        JS_ThrowTypeError(ctx, "the host gave no name for module '%s'", specifier);
    JS_FreeValue(ctx, reply);
    return name;
}

JSValue guest_load(const char *name) {
    JSContext *ctx = guest.ctx;
    hf_buffer request = {0};
    hf_put_char(&request, '[');
    hf_put_string(&request, name, strlen(name));
    hf_put_char(&request, ']');
    JSValue reply = guest_host(HF_HOST_LOAD, &request);
    hf_buffer_free(&request);
    if (JS_IsObject(reply) || JS_IsException(reply)) return reply;
    JS_FreeValue(ctx, reply);
    return JS_ThrowTypeError(ctx, "the host gave nothing for module '%s'", name);
}

/* ---- modules that are no ES source ---------------------------------------------------------------------------------------- */

/* Hands over what was found when the module was loaded. */
static int export_all(JSContext *ctx, JSModuleDef *module) {
    JSValue exports = JS_GetModulePrivateValue(ctx, module);
    JSPropertyEnum *names;
    uint32_t count;
    JS_GetOwnPropertyNames(ctx, &names, &count, exports, JS_GPN_STRING_MASK);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = JS_AtomToCString(ctx, names[i].atom);
        JS_SetModuleExport(ctx, module, name, JS_GetProperty(ctx, exports, names[i].atom));
        JS_FreeCString(ctx, name);
    }
    JS_FreePropertyEnum(ctx, names, count);
    JS_FreeValue(ctx, exports);
    return 0;
}

/* A module whose default is `value`, and which has the value's own properties by name. */
static JSModuleDef *wrap(const char *name, JSValue value, bool named) {
    JSContext *ctx = guest.ctx;
    JSModuleDef *module = JS_NewCModule(ctx, name, export_all);
    JSValue exports = JS_NewObjectProto(ctx, JS_NULL);
    JSPropertyEnum *names = NULL;
    uint32_t count = 0;
    named = named && JS_IsObject(value) && !JS_IsProxy(value);
    if (named && JS_GetOwnPropertyNames(ctx, &names, &count, value, JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY) < 0)
        JS_FreeValue(ctx, JS_GetException(ctx));
    for (uint32_t i = 0; i < count; i++) {
        const char *key = JS_AtomToCString(ctx, names[i].atom);
        JSValue held = strcmp(key, "default") ? JS_GetProperty(ctx, value, names[i].atom) : JS_EXCEPTION;
        if (JS_IsException(held))
            JS_FreeValue(ctx, JS_GetException(ctx));
        else {
            JS_DefinePropertyValue(ctx, exports, names[i].atom, held, JS_PROP_C_W_E);
            JS_AddModuleExport(ctx, module, key);
        }
        JS_FreeCString(ctx, key);
    }
    JS_FreePropertyEnum(ctx, names, count);
    JS_DefinePropertyValueStr(ctx, exports, "default", value, JS_PROP_C_W_E);
    JS_AddModuleExport(ctx, module, "default");
    JS_SetModulePrivateValue(ctx, module, exports);
    return module;
}

/* ---- loading -------------------------------------------------------------------------------------------------------------- */

static void set_url(JSModuleDef *module, const char *name) {
    JSValue meta = JS_GetImportMeta(guest.ctx, module);
    JS_DefinePropertyValueStr(guest.ctx, meta, "url", JS_NewString(guest.ctx, name), JS_PROP_C_W_E);
    JS_FreeValue(guest.ctx, meta);
}

/* When one import of a module fails, those that were loaded before it still point at the module. All of them are forgotten. */
static uint32_t loading;

static void *loading_begins(void) { return loading++ ? NULL : hf_modules_last(guest.ctx); }

static void loading_ends(void *before, bool failed) {
    loading--;
    if (failed && before) hf_modules_forget(guest.ctx, before);
}

JSValue guest_compile_module(const char *source, size_t length, const char *name) {
    void *before = loading_begins();
    JSValue module = JS_Eval(guest.ctx, source, length, name, JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
    loading_ends(before, JS_IsException(module));
    if (!JS_IsException(module)) set_url(JS_VALUE_GET_PTR(module), name);
    return module;
}

static JSModuleDef *load_source(const char *name, JSValueConst source) {
    size_t length;
    const char *text = JS_ToCStringLen(guest.ctx, &length, source);
    JSValue module = guest_compile_module(text, length, name);
    JS_FreeCString(guest.ctx, text);
    if (JS_IsException(module)) return NULL;
    JS_FreeValue(guest.ctx, module); /* the list of modules holds it */
    return JS_VALUE_GET_PTR(module);
}

static bool wants_json(JSValueConst attributes) {
    JSContext *ctx = guest.ctx;
    if (!JS_IsObject(attributes)) return false;
    JSValue type = JS_GetPropertyStr(ctx, attributes, "type");
    bool wanted = JS_IsString(type);
    JS_FreeValue(ctx, type);
    return wanted;
}

static JSModuleDef *load(JSContext *ctx, const char *name, void *unused, JSValueConst attributes) {
    (void)unused;
    JSValue loaded = guest_load(name);
    if (JS_IsException(loaded)) return NULL;
    JSValue kind = JS_GetPropertyStr(ctx, loaded, "kind"), source = JS_GetPropertyStr(ctx, loaded, "source");
    const char *text = JS_ToCString(ctx, kind);
    JSModuleDef *module = NULL;
    if (wants_json(attributes) && strcmp(text, "json"))
        JS_ThrowTypeError(ctx, "module '%s' is not JSON", name);
    else if (!strcmp(text, "module") || (!strcmp(text, "either") && !guest_is_commonjs(name, source)))
        module = load_source(name, source);
    else {
        JSValue exports = guest_require(name, loaded);
        if (!JS_IsException(exports)) module = wrap(name, exports, strcmp(text, "json"));
    }
    JS_FreeCString(ctx, text);
    JS_FreeValues(ctx, kind, source, loaded);
    return module;
}

static char *normalize(JSContext *ctx, const char *referrer, const char *specifier, void *unused) {
    (void)ctx, (void)unused;
    return guest_resolve(specifier, referrer, "import");
}

static int check_attributes(JSContext *ctx, void *unused, JSValueConst attributes) {
    (void)unused;
    JSPropertyEnum *names;
    uint32_t count;
    int bad = 0;
    if (JS_GetOwnPropertyNames(ctx, &names, &count, attributes, JS_GPN_STRING_MASK) < 0) return -1;
    for (uint32_t i = 0; i < count && !bad; i++) {
        const char *key = JS_AtomToCString(ctx, names[i].atom);
        JSValue value = JS_GetProperty(ctx, attributes, names[i].atom);
        const char *text = JS_ToCString(ctx, value);
        bad = strcmp(key, "type") || strcmp(text, "json");
        if (bad) JS_ThrowTypeError(ctx, "import attribute '%s: %s' is not supported", key, text);
        JS_FreeCString(ctx, text);
        JS_FreeCString(ctx, key);
        JS_FreeValue(ctx, value);
    }
    JS_FreePropertyEnum(ctx, names, count);
    return bad ? -1 : 0;
}

void guest_modules_boot(void) { JS_SetModuleLoaderFunc2(guest.rt, normalize, load, check_attributes, NULL); }

/* What the library (prelude/library) has from C: records, the number of the execution, modules by name, and JSON. */
#include <string.h>

#include "guest.h"

/* A record of a step. Its kind is one of these, so that no script can forge another. */
static const char *const kinds[] = {"log", "progress", "stat"};

static JSValue js_record(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int kind) {
    hf_buffer record = {0};
    hf_put_text(&record, "[\"");
    hf_put_text(&record, kinds[kind]);
    hf_put_text(&record, "\",");
    guest_encode(&record, argv[0]);
    hf_put_char(&record, ']');
    hf_emit(&record);
    return JS_UNDEFINED;
}

static JSValue js_execution(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewUint32(ctx, guest_execution());
}

static JSValue js_import(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t length;
    const char *name = JS_ToCStringLen(ctx, &length, argv[0]);
    if (!name) return JS_EXCEPTION;
    bool whole = strlen(name) == length;
    JSValue promise = whole ? JS_LoadModule(ctx, "", name) : JS_UNDEFINED;
    JS_FreeCString(ctx, name);
    if (whole) return promise;
    return JS_Throw(ctx, guest_error("Error", "the name of a module must not have NUL in it", "INVALID_PATH"));
}

enum { WHOLE, PART };

static JSValue js_parse(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int what) {
    size_t length;
    const char *text = JS_ToCStringLen(ctx, &length, argv[0]);
    if (!text) return JS_EXCEPTION;
    JSValue value = what == WHOLE ? guest_parse_any(text, length) : guest_extract(text, length);
    JS_FreeCString(ctx, text);
    return value;
}

void guest_library_boot(JSValueConst native) {
    JSContext *ctx = guest.ctx;
    for (int i = 0; i < 3; i++)
        guest_define(native, kinds[i], JS_NewCFunctionMagic(ctx, js_record, kinds[i], 1, JS_CFUNC_generic_magic, i));
    guest_define(native, "execution", guest_function(js_execution, "execution", 0));
    guest_define(native, "importModule", guest_function(js_import, "importModule", 1));
    guest_define(native, "parse", JS_NewCFunctionMagic(ctx, js_parse, "parse", 1, JS_CFUNC_generic_magic, WHOLE));
    guest_define(native, "extract", JS_NewCFunctionMagic(ctx, js_parse, "extract", 1, JS_CFUNC_generic_magic, PART));
    guest_define(native, "require", guest_require_for(""));
    guest_define(native, "numbers", guest_numbers());
}

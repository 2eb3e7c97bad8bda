/* What people see of a value: its type and a preview. Neither can be broken by what a script does to its objects. */
#include <math.h>
#include <string.h>

#include "guest.h"
#include "dtoa.h"

void guest_put_plain(hf_buffer *out, JSValueConst string) {
    size_t length;
    const char *text = JS_ToCStringLen(guest.ctx, &length, string);
    if (text) hf_put(out, text, length);
    JS_FreeCString(guest.ctx, text);
}

void guest_put_js_string(hf_buffer *out, JSValueConst string) {
    size_t length;
    const char *text = JS_ToCStringLen(guest.ctx, &length, string);
    hf_put_string(out, text ? text : "", text ? length : 0);
    JS_FreeCString(guest.ctx, text);
}

void guest_put_number(hf_buffer *out, double number) {
    char text[128];
    JSDTOATempMem scratch;
    hf_put(out, text, (size_t)js_dtoa(text, number, 10, 0, JS_DTOA_FORMAT_FREE, &scratch));
}

/* ---- type ----------------------------------------------------------------------------------------------------------------- */

static const char *primitive_type(JSValueConst value) {
    switch (JS_VALUE_GET_NORM_TAG(value)) {
    case JS_TAG_INT:
    case JS_TAG_FLOAT64:
        return "number";
    case JS_TAG_BOOL:
        return "boolean";
    case JS_TAG_NULL:
        return "null";
    case JS_TAG_STRING:
    case JS_TAG_STRING_ROPE:
        return "string";
    case JS_TAG_BIG_INT:
    case JS_TAG_SHORT_BIG_INT:
        return "bigint";
    case JS_TAG_SYMBOL:
        return "symbol";
    case JS_TAG_OBJECT:
        return JS_IsFunction(guest.ctx, value) ? "function" : NULL;
    default:
        return "undefined";
    }
}

void guest_put_type(hf_buffer *out, JSValueConst value) {
    enum { LONGEST = 100 };
    const char *type = primitive_type(value);
    if (type) {
        hf_put_string(out, type, strlen(type));
        return;
    }
    JSContext *ctx = guest.ctx;
    JSValue name = JS_IsProxy(value) ? JS_NewString(ctx, "Proxy") : hf_constructor_name(ctx, value);
    size_t length = 0;
    const char *text = JS_IsString(name) ? JS_ToCStringLen(ctx, &length, name) : NULL;
    if (length)
        hf_put_string(out, text, hf_clip(text, length, LONGEST));
    else
        hf_put_text(out, "\"Object\"");
    JS_FreeCString(ctx, text);
    JS_FreeValue(ctx, name);
}

/* ---- preview -------------------------------------------------------------------------------------------------------------- */

static void put_float(hf_buffer *out, double number) {
    if (isnan(number))
        hf_put_text(out, "NaN");
    else if (isinf(number))
        hf_put_text(out, number > 0 ? "Infinity" : "-Infinity");
    else if (number == 0 && signbit(number))
        hf_put_text(out, "-0");
    else
        guest_put_number(out, number);
}

static void put_symbol(hf_buffer *out, JSValueConst symbol) {
    JSContext *ctx = guest.ctx;
    JSAtom atom = JS_ValueToAtom(ctx, symbol);
    size_t length;
    const char *text = JS_AtomToCStringLen(ctx, &length, atom); /* its description */
    hf_put_text(out, "Symbol(");
    hf_put(out, text, length);
    hf_put_char(out, ')');
    JS_FreeCString(ctx, text);
    JS_FreeAtom(ctx, atom);
}

static void put_function(hf_buffer *out, JSValueConst function) {
    JSValue name = JS_IsProxy(function) ? JS_UNDEFINED : hf_own_data(guest.ctx, function, guest.name);
    uint32_t start = out->length;
    if (JS_IsString(name)) guest_put_plain(out, name);
    bool named = out->length > start;
    out->length = start;
    hf_put_text(out, named ? "[Function: " : "[Function (anonymous)");
    if (named) guest_put_plain(out, name);
    hf_put_char(out, ']');
    JS_FreeValue(guest.ctx, name);
}

/* By the prelude, with the stack limit as an exception: a preview is never the reason for a rollback. */
static void put_inspected(hf_buffer *out, JSValueConst object) {
    JSContext *ctx = guest.ctx;
    bool before = hf_soft_stack;
    hf_soft_stack = true;
    JSValue text = JS_Call(ctx, guest.inspect, JS_UNDEFINED, 1, &object);
    hf_soft_stack = before;
    if (JS_IsString(text))
        guest_put_plain(out, text);
    else {
        JS_FreeValue(ctx, JS_GetException(ctx));
        hf_put_text(out, "[Object]");
    }
    JS_FreeValue(ctx, text);
}

void guest_clip(hf_buffer *out, uint32_t start, size_t limit) {
    size_t kept = hf_clip(out->data + start, out->length - start, limit);
    if (kept == out->length - start) return;
    memset(out->data + start + kept, 0, out->length - start - kept);
    out->length = start + (uint32_t)kept;
    hf_put_text(out, "\xE2\x80\xA6");
}

void guest_put_preview(hf_buffer *out, JSValueConst value, size_t limit) {
    uint32_t start = out->length;
    switch (JS_VALUE_GET_NORM_TAG(value)) {
    case JS_TAG_INT:
        hf_put_integer(out, JS_VALUE_GET_INT(value));
        break;
    case JS_TAG_FLOAT64:
        put_float(out, JS_VALUE_GET_FLOAT64(value));
        break;
    case JS_TAG_BOOL:
        hf_put_text(out, JS_VALUE_GET_BOOL(value) ? "true" : "false");
        break;
    case JS_TAG_NULL:
        hf_put_text(out, "null");
        break;
    case JS_TAG_STRING:
    case JS_TAG_STRING_ROPE:
        guest_put_plain(out, value);
        break;
    case JS_TAG_BIG_INT:
    case JS_TAG_SHORT_BIG_INT: {
        JSValue digits = JS_ToString(guest.ctx, value);
        guest_put_plain(out, digits);
        hf_put_char(out, 'n');
        JS_FreeValue(guest.ctx, digits);
        break;
    }
    case JS_TAG_SYMBOL:
        put_symbol(out, value);
        break;
    case JS_TAG_OBJECT:
        if (limit < HF_PREVIEW_MAX && JS_IsFunction(guest.ctx, value))
            put_function(out, value); /* many small ones, inside of another value */
        else
            put_inspected(out, value);
        break;
    default:
        hf_put_text(out, "undefined");
    }
    guest_clip(out, start, limit);
}

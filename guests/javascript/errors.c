/* Errors: what was thrown as text for people and records, and what the host reports as an Error. */
#include <string.h>

#include "guest.h"

/* A property as text, or undefined. Getters may throw; then there is none. */
static JSValue text_of(JSValueConst object, JSAtom name) {
    JSContext *ctx = guest.ctx;
    JSValue value = JS_GetProperty(ctx, object, name);
    if (JS_IsString(value)) return value;
    if (JS_IsException(value)) JS_FreeValue(ctx, JS_GetException(ctx));
    JS_FreeValue(ctx, value);
    return JS_UNDEFINED;
}

static void put_field(hf_buffer *out, const char *key, JSValueConst object, JSAtom name, const char *otherwise) {
    JSValue text = text_of(object, name);
    hf_put_text(out, key);
    if (JS_IsString(text))
        guest_put_js_string(out, text);
    else
        hf_put_string(out, otherwise, strlen(otherwise));
    JS_FreeValue(guest.ctx, text);
}

static void put_code(hf_buffer *out, JSValueConst object) {
    JSContext *ctx = guest.ctx;
    JSValue code = JS_GetProperty(ctx, object, guest.code);
    if (JS_IsException(code)) JS_FreeValue(ctx, JS_GetException(ctx));
    if (JS_IsString(code) || JS_IsNumber(code)) {
        hf_put_text(out, ",\"code\":");
        guest_encode(out, code);
    }
    JS_FreeValue(ctx, code);
}

/* DOMException and errors made by hand have frames only. */
static void put_stack(hf_buffer *out, JSValueConst error) {
    hf_buffer text = {0};
    JSValue stack = text_of(error, guest.stack);
    if (JS_IsString(stack)) guest_put_plain(&text, stack);
    hf_put_text(out, ",\"stack\":");
    if (text.length > 7 && !memcmp(text.data, "    at ", 7)) {
        hf_buffer whole = {0};
        JSValue name = text_of(error, guest.name), message = text_of(error, guest.message);
        guest_put_plain(&whole, name);
        hf_put_text(&whole, ": ");
        guest_put_plain(&whole, message);
        hf_put_char(&whole, '\n');
        hf_put(&whole, text.data, text.length);
        hf_put_string(out, whole.data, whole.length);
        hf_buffer_free(&whole);
        JS_FreeValues(guest.ctx, name, message);
    } else
        hf_put_string(out, text.data, text.length);
    hf_buffer_free(&text);
    JS_FreeValue(guest.ctx, stack);
}

void guest_put_error_fields(hf_buffer *out, JSValueConst error) {
    put_field(out, "\"name\":", error, guest.name, "Error");
    put_field(out, ",\"message\":", error, guest.message, "");
    put_stack(out, error);
    put_code(out, error);
}

static bool is_error(JSValueConst value) { return JS_IsObject(value) && hf_classify(guest.ctx, value) == HF_ERROR; }

void guest_put_error(hf_buffer *out, JSValueConst thrown) {
    hf_put_char(out, '{');
    if (is_error(thrown))
        guest_put_error_fields(out, thrown);
    else { /* anything can be thrown */
        hf_buffer preview = {0};
        JSValue message = JS_IsObject(thrown) ? text_of(thrown, guest.message) : JS_UNDEFINED;
        guest_put_preview(&preview, JS_IsString(message) ? message : thrown, HF_PREVIEW_MAX);
        hf_put_text(out, "\"name\":\"Error\",\"message\":");
        hf_put_string(out, preview.data, preview.length);
        hf_put_text(out, ",\"stack\":\"\"");
        if (JS_IsObject(thrown)) put_code(out, thrown);
        hf_put_text(out, ",\"value\":");
        guest_encode(out, thrown);
        JS_FreeValue(guest.ctx, message);
        hf_buffer_free(&preview);
    }
    hf_put_char(out, '}');
}

void guest_put_thrown(hf_buffer *out, const char *before, const char *after) {
    enum { SHORT = 200 };
    JSContext *ctx = guest.ctx;
    JSValue thrown = JS_GetException(ctx);
    JSValue message = JS_IsObject(thrown) ? text_of(thrown, guest.message) : JS_UNDEFINED;
    hf_put_text(out, before);
    if (JS_IsString(message) || !JS_IsObject(thrown))
        guest_put_preview(out, JS_IsString(message) ? message : thrown, SHORT);
    else
        hf_put_text(out, "an object");
    hf_put_text(out, after);
    JS_FreeValue(ctx, message);
    JS_FreeValue(ctx, thrown);
}

/* ---- errors that we make -------------------------------------------------------------------------------------------------- */

static JSValue blank(const char *name) {
    JSContext *ctx = guest.ctx;
    if (!strcmp(name, "TypeError")) return JS_NewTypeError(ctx, " ");
    if (!strcmp(name, "RangeError")) return JS_NewRangeError(ctx, " ");
    if (!strcmp(name, "SyntaxError")) return JS_NewSyntaxError(ctx, " ");
    if (!strcmp(name, "ReferenceError")) return JS_NewReferenceError(ctx, " ");
    return JS_NewError(ctx);
}

static void hide(JSValueConst error, JSAtom name, JSValue value) {
    JS_DefinePropertyValue(guest.ctx, error, name, value, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
}

/* The stack text that the engine would have made, had it known name and message from the start. */
static void retitle(JSValueConst error, JSValueConst name, JSValueConst message) {
    JSContext *ctx = guest.ctx;
    JSValue stack = text_of(error, guest.stack);
    hf_buffer text = {0};
    hf_buffer frames = {0};
    if (JS_IsString(stack)) guest_put_plain(&frames, stack);
    guest_put_plain(&text, name);
    if (JS_IsString(message)) {
        hf_put_text(&text, ": ");
        guest_put_plain(&text, message);
    }
    const char *first = frames.data ? memmem(frames.data, frames.length, "    at ", 7) : NULL;
    if (first) {
        hf_put_char(&text, '\n');
        hf_put(&text, first, frames.length - (size_t)(first - frames.data));
    }
    hide(error, guest.stack, JS_NewStringLen(ctx, text.data, text.length));
    hf_buffer_free(&text);
    hf_buffer_free(&frames);
    JS_FreeValue(ctx, stack);
}

JSValue guest_error_from(JSValueConst description) {
    JSContext *ctx = guest.ctx;
    bool is_object = JS_IsObject(description);
    JSValue name = is_object ? hf_own_data(ctx, description, guest.name) : JS_UNDEFINED;
    JSValue message = is_object ? hf_own_data(ctx, description, guest.message) : JS_DupValue(ctx, description);
    JSValue stack = is_object ? hf_own_data(ctx, description, guest.stack) : JS_UNDEFINED;
    const char *class = JS_IsString(name) ? JS_ToCString(ctx, name) : NULL;
    JSValue error = blank(class ? class : "Error");
    JSValue own = text_of(error, guest.name);
    if (JS_IsString(name) && !JS_IsStrictEqual(ctx, own, name)) hide(error, guest.name, JS_DupValue(ctx, name));
    if (JS_IsString(message)) hide(error, guest.message, JS_DupValue(ctx, message));
    if (JS_IsString(stack))
        hide(error, guest.stack, JS_DupValue(ctx, stack));
    else
        retitle(error, JS_IsString(name) ? name : own, message);
    for (int i = 0; is_object && i < 2; i++) {
        JSAtom extra = i ? guest.cause : guest.code;
        JSValue value = hf_own_data(ctx, description, extra);
        if (JS_IsUndefined(value)) continue;
        if (i)
            hide(error, extra, value);
        else
            JS_DefinePropertyValue(ctx, error, extra, value, JS_PROP_C_W_E);
    }
    JS_FreeCString(ctx, class);
    JS_FreeValues(ctx, name, message, stack, own);
    return error;
}

JSValue guest_error(const char *name, const char *message, const char *code) {
    JSContext *ctx = guest.ctx;
    JSValue description = JS_NewObjectProto(ctx, JS_NULL);
    JS_DefinePropertyValue(ctx, description, guest.name, JS_NewString(ctx, name), JS_PROP_C_W_E);
    JS_DefinePropertyValue(ctx, description, guest.message, JS_NewString(ctx, message), JS_PROP_C_W_E);
    JS_DefinePropertyValue(ctx, description, guest.code, JS_NewString(ctx, code), JS_PROP_C_W_E);
    JSValue error = guest_error_from(description);
    JS_FreeValue(ctx, description);
    return error;
}

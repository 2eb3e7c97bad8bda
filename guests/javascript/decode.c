/* Values that come in: JSON text to values, and tags back to what they stand for. */
#include <math.h>
#include <string.h>

#include "guest.h"

char *guest_copy(const char *data, size_t length) {
    char *copy = hf_malloc(length + 1);
    memcpy(copy, data, length);
    copy[length] = 0;
    return copy;
}

JSValue guest_parse(const char *text, size_t length) {
    if (!hf_is_utf8(text, length)) return JS_ThrowSyntaxError(guest.ctx, "not valid UTF-8");
    char *copy = guest_copy(text, length);
    JSValue value = JS_ParseJSON(guest.ctx, copy, length, "<json>");
    hf_free(copy);
    return value;
}

static JSValue revive(JSValue value, int depth);
static void revive_inside(JSValueConst object, int depth);

static JSValue take(JSValueConst object, const char *name) {
    JSAtom atom = JS_NewAtom(guest.ctx, name);
    JSValue value = hf_own_data(guest.ctx, object, atom);
    JS_FreeAtom(guest.ctx, atom);
    return value;
}

/* ---- one tag each --------------------------------------------------------------------------------------------------------- */

static JSValue number_from(JSValueConst text) {
    static const struct {
        const char *text;
        double number;
    } table[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}, {"-0", -0.0}};
    const char *given = JS_ToCString(guest.ctx, text);
    JSValue result = JS_UNDEFINED;
    for (size_t i = 0; given && i < sizeof table / sizeof *table; i++)
        if (!strcmp(given, table[i].text)) result = JS_NewFloat64(guest.ctx, table[i].number);
    JS_FreeCString(guest.ctx, given);
    return result;
}

static JSValue bigint_from(JSValueConst text) {
    size_t length;
    const char *digits = JS_ToCStringLen(guest.ctx, &length, text);
    size_t sign = digits && *digits == '-';
    JSValue result = JS_UNDEFINED;
    if (digits && length > sign && strspn(digits + sign, "0123456789") == length - sign)
        result = JS_Call(guest.ctx, guest.bigint, JS_UNDEFINED, 1, &text);
    JS_FreeCString(guest.ctx, digits);
    return result;
}

static JSValue bytes_from(JSValueConst text) {
    JSContext *ctx = guest.ctx;
    size_t length;
    const char *encoded = JS_ToCStringLen(ctx, &length, text);
    char *bytes = hf_malloc(length / 4 * 3 + 1);
    int count = hf_base64_decode(encoded, length, bytes);
    JSValue result = count < 0 ? JS_UNDEFINED : JS_NewUint8ArrayCopy(ctx, (uint8_t *)bytes, (size_t)count);
    hf_free(bytes);
    JS_FreeCString(ctx, encoded);
    return result;
}

static JSValue date_from(JSValueConst held) {
    double milliseconds = NAN;
    if (JS_IsNumber(held)) JS_ToFloat64(guest.ctx, &milliseconds, held);
    return JS_NewDate(guest.ctx, milliseconds);
}

static JSValue collection_from(JSValueConst items, bool pairs, int depth) {
    JSContext *ctx = guest.ctx;
    JSValue result = JS_CallConstructor(ctx, pairs ? guest.map : guest.set, 0, NULL);
    int64_t length = 0;
    if (JS_IsArray(items)) JS_GetLength(ctx, items, &length);
    for (int64_t i = 0; i < length; i++) {
        JSValue item = JS_GetPropertyInt64(ctx, items, i), both[2] = {JS_UNDEFINED, JS_UNDEFINED};
        if (!pairs)
            both[0] = revive(item, depth + 1);
        else if (JS_IsArray(item)) {
            both[0] = revive(JS_GetPropertyUint32(ctx, item, 0), depth + 1);
            both[1] = revive(JS_GetPropertyUint32(ctx, item, 1), depth + 1);
            JS_FreeValue(ctx, item);
        } else
            JS_FreeValue(ctx, item);
        JS_FreeValue(ctx, JS_Call(ctx, pairs ? guest.map_set : guest.set_add, result, pairs ? 2 : 1, (JSValueConst *)both));
        JS_FreeValue(ctx, both[0]);
        JS_FreeValue(ctx, both[1]);
    }
    return result;
}

static JSValue from_tag(JSValueConst tag, JSValueConst object, int depth) {
    JSContext *ctx = guest.ctx;
    JSValue held = take(object, "v"), result = JS_UNDEFINED;
    const char *name = JS_ToCString(ctx, tag);
    bool text = JS_IsString(held);
    if (!strcmp(name, "number") && text)
        result = number_from(held);
    else if (!strcmp(name, "bigint") && text)
        result = bigint_from(held);
    else if (!strcmp(name, "bytes") && text)
        result = bytes_from(held);
    else if (!strcmp(name, "date"))
        result = date_from(held);
    else if (!strcmp(name, "map"))
        result = collection_from(held, true, depth);
    else if (!strcmp(name, "set"))
        result = collection_from(held, false, depth);
    else if (!strcmp(name, "error") && JS_IsObject(held)) {
        held = revive(held, depth + 1);
        result = guest_error_from(held);
    } else if (!strcmp(name, "object") && JS_IsObject(held)) {
        revive_inside(held, depth + 1); /* its own "$" is a plain key */
        result = JS_DupValue(ctx, held);
    }
    JS_FreeCString(ctx, name);
    JS_FreeValue(ctx, held);
    return result;
}

/* ---- the walk ------------------------------------------------------------------------------------------------------------- */

static void revive_inside(JSValueConst object, int depth) {
    JSContext *ctx = guest.ctx;
    JSPropertyEnum *names;
    uint32_t count;
    if (JS_GetOwnPropertyNames(ctx, &names, &count, object, JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY) < 0) return;
    for (uint32_t i = 0; i < count; i++) {
        JSValue value = JS_GetProperty(ctx, object, names[i].atom);
        if (JS_IsObject(value))
            JS_DefinePropertyValue(ctx, object, names[i].atom, revive(value, depth + 1), JS_PROP_C_W_E);
        else
            JS_FreeValue(ctx, value);
    }
    JS_FreePropertyEnum(ctx, names, count);
}

/* Takes `value`, returns what stands in its place. The value comes from the JSON parser: plain, without cycles, seen by nobody yet. */
static JSValue revive(JSValue value, int depth) {
    JSContext *ctx = guest.ctx;
    if (!JS_IsObject(value) || depth > HF_DEPTH_MAX) return value;
    JSValue tag = hf_own_data(ctx, value, guest.dollar);
    if (!JS_IsString(tag)) {
        JS_FreeValue(ctx, tag);
        revive_inside(value, depth);
        return value;
    }
    JSValue result = from_tag(tag, value, depth);
    JS_FreeValue(ctx, tag);
    JS_FreeValue(ctx, value);
    return result;
}

JSValue guest_decode(const char *text, size_t length) {
    JSValue value = guest_parse(text, length);
    if (JS_IsException(value) || !memmem(text, length, "\"$\"", 3)) return value;
    return revive(value, 0);
}

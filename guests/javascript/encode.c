/* Values that leave: JSON, with tags for what JSON cannot say.
 *
 * Getters, proxies and toJSON are code of the script: they may throw, change what is being walked, or ask queries. So what is
 * walked is held, everything that can throw is caught where it happens, and callers encode into a buffer of their own.
 */
#include <math.h>
#include <string.h>

#include "guest.h"

enum { SIZE_MAX_BYTES = 64 << 20 };
#define SAME UINT32_MAX
#define SAFE_INTEGER 9007199254740992.0 /* the host takes larger integers for BigInts */
#define FIRST_EXPONENT 1e21             /* from here on, the text of a number has an exponent */

typedef struct { /* the way to an object that is being encoded */
    void *object;
    JSAtom key; /* JS_ATOM_NULL: `index` instead */
    uint32_t index; /* SAME: what toJSON gave for the level above */
} level;

typedef struct {
    hf_buffer *out;
    int depth;
    level levels[HF_DEPTH_MAX + 1];
} walk;

static void encode(walk *w, JSValueConst value, JSAtom key, uint32_t index);

static void put_tag(walk *w, const char *tag) {
    hf_put_text(w->out, "{\"$\":\"");
    hf_put_text(w->out, tag);
    hf_put_text(w->out, "\",\"v\":");
}

static void put_opaque(walk *w, const char *type, const char *text, size_t length) {
    hf_put_text(w->out, "{\"$\":\"opaque\",\"type\":");
    hf_put_string(w->out, type, strlen(type));
    hf_put_text(w->out, ",\"v\":");
    hf_put_string(w->out, text, length);
    hf_put_char(w->out, '}');
}

static void put_opaque_value(walk *w, JSValueConst value) {
    enum { SHORT = 200 };
    hf_buffer preview = {0};
    guest_put_preview(&preview, value, SHORT);
    hf_put_text(w->out, "{\"$\":\"opaque\",\"type\":");
    guest_put_type(w->out, value);
    hf_put_text(w->out, ",\"v\":");
    hf_put_string(w->out, preview.data, preview.length);
    hf_put_char(w->out, '}');
    hf_buffer_free(&preview);
}

/* Something threw: say so in place of the value. */
static void put_thrown(walk *w, const char *what) {
    hf_buffer text = {0};
    guest_put_thrown(&text, what, "]");
    put_opaque(w, "error", text.data, text.length);
    hf_buffer_free(&text);
}

/* ---- numbers and text ----------------------------------------------------------------------------------------------------- */

static void put_float(walk *w, double number) {
    const char *special = isnan(number) ? "NaN" : isinf(number) ? (number > 0 ? "Infinity" : "-Infinity") : NULL;
    if (number == 0 && signbit(number)) special = "-0";
    if (!special) {
        guest_put_number(w->out, number);
        if (fabs(number) > SAFE_INTEGER && fabs(number) < FIRST_EXPONENT) hf_put_text(w->out, ".0"); /* a number, not a BigInt */
        return;
    }
    put_tag(w, "number");
    hf_put_string(w->out, special, strlen(special));
    hf_put_char(w->out, '}');
}

static void put_bigint(walk *w, JSValueConst value) {
    JSValue text = JS_ToString(guest.ctx, value);
    put_tag(w, "bigint");
    guest_put_js_string(w->out, text);
    hf_put_char(w->out, '}');
    JS_FreeValue(guest.ctx, text);
}

static bool is_identifier(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (!(c == '_' || c == '$' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (i && c >= '0' && c <= '9'))) return false;
    }
    return length > 0;
}

static void put_path(hf_buffer *out, const walk *w, int depth) {
    hf_put_char(out, '$');
    for (int i = 1; i <= depth; i++) {
        const level *at = &w->levels[i];
        if (at->key == JS_ATOM_NULL && at->index == SAME) continue;
        if (at->key == JS_ATOM_NULL) {
            hf_put_char(out, '[');
            hf_put_integer(out, at->index);
            hf_put_char(out, ']');
            continue;
        }
        size_t length;
        const char *text = JS_AtomToCStringLen(guest.ctx, &length, at->key);
        if (is_identifier(text, length)) {
            hf_put_char(out, '.');
            hf_put(out, text, length);
        } else {
            hf_put_char(out, '[');
            hf_put_string(out, text, length);
            hf_put_char(out, ']');
        }
        JS_FreeCString(guest.ctx, text);
    }
}

static void put_circular(walk *w, int depth) {
    hf_buffer path = {0};
    put_path(&path, w, depth);
    put_tag(w, "circular");
    hf_put_string(w->out, path.data, path.length);
    hf_put_char(w->out, '}');
    hf_buffer_free(&path);
}

/* ---- objects -------------------------------------------------------------------------------------------------------------- */

static void put_elements(walk *w, JSValueConst array) {
    JSContext *ctx = guest.ctx;
    int64_t length = 0;
    if (JS_GetLength(ctx, array, &length) < 0) {
        put_thrown(w, "[length threw: ");
        return;
    }
    hf_put_char(w->out, '[');
    for (int64_t i = 0; i < length; i++) {
        if (i) hf_put_char(w->out, ',');
        JSValue element = JS_GetPropertyInt64(ctx, array, i);
        if (JS_IsException(element))
            put_thrown(w, "[getter threw: ");
        else
            encode(w, element, JS_ATOM_NULL, (uint32_t)i);
        JS_FreeValue(ctx, element);
    }
    hf_put_char(w->out, ']');
}

static void put_properties(walk *w, JSValueConst object) {
    JSContext *ctx = guest.ctx;
    JSPropertyEnum *names;
    uint32_t count;
    if (JS_GetOwnPropertyNames(ctx, &names, &count, object, JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY) < 0) {
        put_thrown(w, "[keys threw: ");
        return;
    }
    bool tagged = false;
    for (uint32_t i = 0; i < count && !tagged; i++) tagged = names[i].atom == guest.dollar;
    if (tagged) put_tag(w, "object");
    hf_put_char(w->out, '{');
    for (uint32_t i = 0; i < count; i++) {
        size_t length;
        const char *text = JS_AtomToCStringLen(ctx, &length, names[i].atom);
        if (i) hf_put_char(w->out, ',');
        hf_put_string(w->out, text, length);
        hf_put_char(w->out, ':');
        JS_FreeCString(ctx, text);
        JSValue value = JS_GetProperty(ctx, object, names[i].atom);
        if (JS_IsException(value))
            put_thrown(w, "[getter threw: ");
        else
            encode(w, value, names[i].atom, 0);
        JS_FreeValue(ctx, value);
    }
    hf_put_char(w->out, '}');
    if (tagged) hf_put_char(w->out, '}');
    JS_FreePropertyEnum(ctx, names, count);
}

static void put_collection(walk *w, JSValueConst collection, bool pairs) {
    uint32_t count;
    JSValue *entries = hf_entries(guest.ctx, collection, &count);
    put_tag(w, pairs ? "map" : "set");
    hf_put_char(w->out, '[');
    for (uint32_t i = 0; i < count; i += 2) {
        if (i) hf_put_char(w->out, ',');
        if (pairs) hf_put_char(w->out, '[');
        encode(w, entries[i], JS_ATOM_NULL, i / 2);
        if (pairs) {
            hf_put_char(w->out, ',');
            encode(w, entries[i + 1], JS_ATOM_NULL, i / 2);
            hf_put_char(w->out, ']');
        }
    }
    hf_put_text(w->out, "]}");
    hf_entries_free(guest.ctx, entries, count);
}

static void put_bytes(walk *w, JSValueConst object) {
    size_t length;
    const uint8_t *bytes = hf_bytes(object, &length);
    put_tag(w, "bytes");
    hf_put_char(w->out, '"');
    hf_put_base64(w->out, bytes, length);
    hf_put_text(w->out, "\"}");
}

static void put_date(walk *w, JSValueConst date) {
    JSValue held = hf_unbox(guest.ctx, date);
    double milliseconds = NAN;
    JS_ToFloat64(guest.ctx, &milliseconds, held);
    put_tag(w, "date");
    if (isnan(milliseconds))
        hf_put_text(w->out, "null");
    else
        guest_put_number(w->out, milliseconds);
    hf_put_char(w->out, '}');
}

static void put_failure(walk *w, JSValueConst error) {
    JSContext *ctx = guest.ctx;
    put_tag(w, "error");
    hf_put_char(w->out, '{');
    guest_put_error_fields(w->out, error);
    JSValue cause = JS_GetProperty(ctx, error, guest.cause);
    if (JS_IsException(cause))
        JS_FreeValue(ctx, JS_GetException(ctx));
    else if (!JS_IsUndefined(cause)) {
        hf_put_text(w->out, ",\"cause\":");
        encode(w, cause, guest.cause, 0);
    }
    JS_FreeValue(ctx, cause);
    hf_put_text(w->out, "}}");
}

/* True if the object has a toJSON and it was used. */
static bool put_by_itself(walk *w, JSValueConst object, JSAtom key, uint32_t index);

static void put_object(walk *w, JSValueConst object, JSAtom key, uint32_t index, bool ask) {
    JSContext *ctx = guest.ctx;
    void *pointer = JS_VALUE_GET_PTR(object);
    for (int i = 0; i < w->depth; i++) {
        if (w->levels[i].object == pointer) {
            put_circular(w, i);
            return;
        }
    }
    if (w->depth >= HF_DEPTH_MAX) {
        put_opaque(w, "depth", "[too deep]", 10);
        return;
    }
    w->levels[w->depth++] = (level){pointer, key, index};
    switch (hf_classify(ctx, object)) {
    case HF_CALLABLE:
    case HF_OTHER:
        put_opaque_value(w, object);
        break;
    case HF_ERROR:
        put_failure(w, object);
        break;
    case HF_DATE:
        put_date(w, object);
        break;
    case HF_BYTES:
        put_bytes(w, object);
        break;
    case HF_MAP:
        put_collection(w, object, true);
        break;
    case HF_SET:
        put_collection(w, object, false);
        break;
    case HF_BOXED: {
        JSValue held = hf_unbox(ctx, object);
        encode(w, held, key, index);
        JS_FreeValue(ctx, held);
        break;
    }
    case HF_ARRAY:
        if (!ask || !put_by_itself(w, object, key, index)) put_elements(w, object);
        break;
    case HF_PROXY: {
        JSValue target = JS_GetProxyTarget(ctx, object);
        bool is_array = JS_IsArray(target);
        JS_FreeValue(ctx, target);
        if (ask && put_by_itself(w, object, key, index)) break;
        if (is_array)
            put_elements(w, object);
        else
            put_properties(w, object);
        break;
    }
    case HF_PLAIN:
        if (!ask || !put_by_itself(w, object, key, index)) put_properties(w, object);
        break;
    }
    w->depth--;
}

static bool put_by_itself(walk *w, JSValueConst object, JSAtom key, uint32_t index) {
    JSContext *ctx = guest.ctx;
    JSValue method = JS_GetProperty(ctx, object, guest.to_json);
    if (JS_IsException(method)) {
        put_thrown(w, "[toJSON threw: ");
        return true;
    }
    if (!JS_IsFunction(ctx, method)) {
        JS_FreeValue(ctx, method);
        return false;
    }
    JSValue name = key == JS_ATOM_NULL ? JS_NewUint32(ctx, index) : JS_AtomToString(ctx, key);
    JSValue text = JS_ToString(ctx, name);
    JSValue result = JS_Call(ctx, method, object, 1, (JSValueConst *)&text);
    JS_FreeValue(ctx, name);
    JS_FreeValue(ctx, text);
    JS_FreeValue(ctx, method);
    if (JS_IsException(result))
        put_thrown(w, "[toJSON threw: ");
    else if (JS_IsObject(result) && JS_VALUE_GET_PTR(result) != JS_VALUE_GET_PTR(object))
        put_object(w, result, JS_ATOM_NULL, SAME, false);
    else if (JS_IsObject(result)) { /* it returned itself */
        JS_FreeValue(ctx, result);
        return false;
    } else
        encode(w, result, key, index);
    JS_FreeValue(ctx, result);
    return true;
}

static void encode(walk *w, JSValueConst value, JSAtom key, uint32_t index) {
    if (w->out->length > SIZE_MAX_BYTES) hf_breach(HF_OUTPUT, SIZE_MAX_BYTES, w->out->length);
    switch (JS_VALUE_GET_NORM_TAG(value)) {
    case JS_TAG_INT:
        hf_put_integer(w->out, JS_VALUE_GET_INT(value));
        break;
    case JS_TAG_FLOAT64:
        put_float(w, JS_VALUE_GET_FLOAT64(value));
        break;
    case JS_TAG_BOOL:
        hf_put_text(w->out, JS_VALUE_GET_BOOL(value) ? "true" : "false");
        break;
    case JS_TAG_NULL:
        hf_put_text(w->out, "null");
        break;
    case JS_TAG_STRING:
    case JS_TAG_STRING_ROPE:
        guest_put_js_string(w->out, value);
        break;
    case JS_TAG_BIG_INT:
    case JS_TAG_SHORT_BIG_INT:
        put_bigint(w, value);
        break;
    case JS_TAG_SYMBOL:
        put_opaque_value(w, value);
        break;
    case JS_TAG_OBJECT:
        put_object(w, value, key, index, true);
        break;
    default:
        hf_put_text(w->out, "{\"$\":\"undefined\"}");
    }
}

void guest_encode(hf_buffer *out, JSValueConst value) {
    walk whole;
    whole.out = out;
    whole.depth = 0;
    JSValue held = JS_DupValue(guest.ctx, value);
    encode(&whole, held, JS_ATOM_NULL, 0);
    JS_FreeValue(guest.ctx, held);
}

bool guest_has_json(JSValueConst value) {
    if (JS_IsSymbol(value)) return false;
    if (!JS_IsObject(value)) return true;
    enum hf_class class = hf_classify(guest.ctx, value);
    return class != HF_CALLABLE && class != HF_OTHER;
}

/* What is hashed of a value. See digest.h for how. Nothing here runs code of the script, allocates in QuickJS, or changes a value. */
#include <string.h>

#include "rng.h"

enum { UNDEFINED = 1, UNINITIALIZED, NUL, FALSE, TRUE, NUMBER, STRING, BIGINT, SYMBOL, OBJECT, PROPERTY, ACCESSOR, LAZY };

static void hash_value(hf_digest *d, JSValueConst value) {
    switch (JS_VALUE_GET_NORM_TAG(value)) {
    case JS_TAG_INT:
        hf_digest_tag(d, NUMBER);
        hf_digest_number(d, JS_VALUE_GET_INT(value));
        break;
    case JS_TAG_FLOAT64:
        hf_digest_tag(d, NUMBER);
        hf_digest_number(d, JS_VALUE_GET_FLOAT64(value));
        break;
    case JS_TAG_BOOL:
        hf_digest_word(d, JS_VALUE_GET_BOOL(value) ? TRUE : FALSE);
        break;
    case JS_TAG_NULL:
        hf_digest_word(d, NUL);
        break;
    case JS_TAG_STRING:
    case JS_TAG_STRING_ROPE:
        hf_digest_tag(d, STRING);
        hf_digest_string(d, value);
        break;
    case JS_TAG_BIG_INT:
    case JS_TAG_SHORT_BIG_INT:
        hf_digest_tag(d, BIGINT);
        hf_digest_bigint(d, value);
        break;
    case JS_TAG_SYMBOL:
        hf_digest_tag(d, SYMBOL);
        hf_digest_string(d, value);
        break;
    case JS_TAG_OBJECT:
        hf_digest_tag(d, OBJECT);
        hf_digest_object(d, JS_VALUE_GET_PTR(value));
        break;
    case JS_TAG_UNINITIALIZED:
        hf_digest_word(d, UNINITIALIZED);
        break;
    default:
        hf_digest_word(d, UNDEFINED);
    }
}

/* ---- objects -------------------------------------------------------------------------------------------------------------- */

/* The object that a function makes its instances from appears when it is first asked for. Unless something was put into it, it is
 * the same as if it had not. */
static bool is_plain_prototype(const hf_slot *slot) {
    uint32_t found = 0;
    hf_slot inner;
    if (slot->kind == HF_LAZY) return true;
    if (slot->kind != HF_DATA || !JS_IsObject(slot->value)) return false;
    for (uint32_t i = 0, count = hf_slots(slot->value); i < count; i++) found += hf_slot_at(slot->value, i, &inner);
    return found <= 1; /* the constructor */
}

static void hash_properties(hf_digest *d, JSValueConst object, bool is_function) {
    hf_slot slot;
    for (uint32_t i = 0, count = hf_slots(object); i < count && !hf_digest_spent(d); i++) {
        if (!hf_slot_at(object, i, &slot)) continue;
        if (is_function && slot.name == guest.prototype && is_plain_prototype(&slot)) continue;
        hf_digest_word(d, (uint64_t)slot.flags << 8 | (slot.kind == HF_DATA ? PROPERTY : slot.kind == HF_LAZY ? LAZY : ACCESSOR));
        hf_digest_atom(guest.ctx, d, slot.name);
        if (slot.kind == HF_LAZY) continue;
        hash_value(d, slot.value);
        if (slot.kind == HF_ACCESSOR) hash_value(d, slot.setter);
    }
}

static void hash_elements(hf_digest *d, JSValueConst array) {
    uint32_t count;
    const JSValue *elements = hf_elements(array, &count);
    hf_digest_word(d, count);
    for (uint32_t i = 0; i < count && !hf_digest_spent(d); i++) hash_value(d, elements[i]);
}

static void hash_entries(hf_digest *d, JSValueConst collection, bool pairs) {
    JSValueConst key, value;
    hf_digest_word(d, hf_size(collection));
    for (void *at = NULL; (at = hf_next_entry(collection, at, &key, &value)) && !hf_digest_spent(d);) {
        hash_value(d, key);
        if (pairs) hash_value(d, value);
    }
}

static void hash_other(hf_digest *d, JSValueConst object) {
    JSValueConst pattern;
    const char *flags = hf_pattern(object, &pattern);
    size_t size;
    const void *state = guest_rng_state(object, &size);
    if (state)
        hf_digest_bytes(d, state, size);
    else if (flags) {
        hash_value(d, pattern);
        hf_digest_bytes(d, flags, strlen(flags));
    } else if (JS_IsPromise(object)) {
        JSPromiseStateEnum state;
        JSValueConst result = hf_settled(object, &state);
        hf_digest_word(d, state);
        hash_value(d, result);
    }
}

static void hash_object(hf_digest *d, JSValueConst object) {
    JSContext *ctx = guest.ctx;
    enum hf_class class = hf_classify(ctx, object);
    size_t length;
    hf_digest_word(d, (uint64_t)hf_class_id(object) << 1 | hf_is_extensible(object));
    if (JS_IsProxy(object)) { /* a proxy has no properties of its own */
        JSValueConst target, handler = hf_handler(object, &target);
        hash_value(d, target);
        hash_value(d, handler);
        return;
    }
    switch (class) {
    case HF_ARRAY:
        hash_elements(d, object);
        break;
    case HF_CALLABLE: {
        const char *source = hf_source(object, &length);
        hf_digest_bytes(d, source, length);
        break;
    }
    case HF_BYTES: {
        const uint8_t *bytes = hf_bytes(object, &length);
        hf_digest_bytes(d, bytes, length);
        break;
    }
    case HF_DATE:
    case HF_BOXED:
        hash_value(d, hf_held(object));
        break;
    case HF_MAP:
        hash_entries(d, object, true);
        break;
    case HF_SET:
        hash_entries(d, object, false);
        break;
    case HF_OTHER:
        hash_other(d, object);
        break;
    default:
        break;
    }
    hash_properties(d, object, class == HF_CALLABLE);
}

void guest_walk(hf_digest *d, JSValueConst value, JSValueConst more) {
    const void *object;
    hash_value(d, value);
    hash_value(d, more);
    while ((object = hf_digest_next(d))) hash_object(d, JS_MKPTR(JS_TAG_OBJECT, (void *)object));
}

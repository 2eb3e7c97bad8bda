/* A preview of a value as it lies in memory. `inspect` of the prelude may run getters, traps and methods of the script; where that is
 * not allowed, this says nearly the same, on one line. */
#include <ctype.h>
#include <string.h>

#include "guest.h"

enum { DEEPEST = 2, ELEMENTS_MAX = 100, SLOTS_MAX = 10000 };

typedef struct {
    hf_buffer *out;
    uint32_t end;   /* more than this is not shown */
    uint32_t slots; /* that may still be looked at: not all of them are shown */
    const void *path[DEEPEST + 1];
} glance;

static void put_value(glance *g, JSValueConst value, int depth);

static bool full(const glance *g) { return g->out->length > g->end; }

/* ---- text ----------------------------------------------------------------------------------------------------------------- */

static void put_unit(hf_buffer *out, uint32_t code) { /* lone surrogates too: hf_put_string knows them */
    if (code < 0x80)
        hf_put_char(out, (char)code);
    else {
        if (code < 0x800)
            hf_put_char(out, (char)(0xC0 | code >> 6));
        else {
            if (code < 0x10000)
                hf_put_char(out, (char)(0xE0 | code >> 12));
            else {
                hf_put_char(out, (char)(0xF0 | code >> 18));
                hf_put_char(out, (char)(0x80 | (code >> 12 & 63)));
            }
            hf_put_char(out, (char)(0x80 | (code >> 6 & 63)));
        }
        hf_put_char(out, (char)(0x80 | (code & 63)));
    }
}

/* Only what can be shown is copied: the string may be as large as memory. */
static void put_string(glance *g, JSValueConst string, bool quoted) {
    uint16_t units[HF_PREVIEW_MAX + 2];
    size_t count = hf_units(string, units, sizeof units / sizeof *units);
    if (quoted) hf_put_char(g->out, '\'');
    for (size_t i = 0; i < count && !full(g); i++) {
        uint32_t code = units[i];
        if (code >> 10 == 0x36 && i + 1 < count && units[i + 1] >> 10 == 0x37)
            code = 0x10000 + ((code & 0x3FF) << 10) + (units[++i] & 0x3FF);
        if (quoted && (code == '\'' || code == '\\' || code == '\n')) hf_put_char(g->out, '\\');
        put_unit(g->out, quoted && code == '\n' ? 'n' : code);
    }
    if (quoted) hf_put_char(g->out, '\'');
}

static bool is_name(JSValueConst string) {
    uint16_t units[64];
    size_t count = hf_units(string, units, sizeof units / sizeof *units), i = 0;
    while (i < count && units[i] < 0x80 && (units[i] == '_' || units[i] == '$' || isalnum(units[i]))) i++;
    return count && i == count;
}

static void put_key(glance *g, JSAtom atom) {
    JSValue text = JS_AtomToValue(guest.ctx, atom);
    if (JS_IsString(text))
        put_string(g, text, !is_name(text));
    else {
        hf_put_char(g->out, '[');
        guest_put_preview(g->out, text, HF_PREVIEW_SHORT); /* a symbol */
        hf_put_char(g->out, ']');
    }
    JS_FreeValue(guest.ctx, text);
}

/* Frees the value. False: there was no text to put. */
static bool put_free(glance *g, JSValue text) {
    uint32_t start = g->out->length;
    if (JS_IsString(text)) put_string(g, text, false);
    JS_FreeValue(guest.ctx, text);
    return g->out->length > start;
}

/* ---- objects -------------------------------------------------------------------------------------------------------------- */

static void put_class(glance *g, JSValueConst object) {
    if (!put_free(g, hf_constructor_name(guest.ctx, object))) hf_put_text(g->out, "Object");
}

static bool is_named_object(JSValueConst object) {
    JSValue name = hf_constructor_name(guest.ctx, object);
    const char *text = JS_IsString(name) ? JS_ToCString(guest.ctx, name) : NULL;
    bool named = text && *text && strcmp(text, "Object");
    JS_FreeCString(guest.ctx, text);
    JS_FreeValue(guest.ctx, name);
    return named;
}

static void put_count(glance *g, uint32_t count) {
    hf_put_char(g->out, '(');
    hf_put_integer(g->out, count);
    hf_put_text(g->out, ") ");
}

/* Before each part but the first. False: there is no room for it. */
static bool separate(glance *g, uint32_t *shown) {
    if (full(g)) return false;
    hf_put_text(g->out, (*shown)++ ? ", " : " ");
    return true;
}

static void put_more(glance *g, uint32_t more, uint32_t *shown) {
    if (!more || !separate(g, shown)) return;
    hf_put_text(g->out, "... ");
    hf_put_integer(g->out, more);
    hf_put_text(g->out, " more items");
}

void guest_put_accessor(hf_buffer *out, const hf_slot *slot) {
    bool gets = !JS_IsUndefined(slot->value), sets = !JS_IsUndefined(slot->setter);
    hf_put_text(out, gets && sets ? "[Getter/Setter]" : gets ? "[Getter]" : "[Setter]");
}

/* Those that a loop would see. */
static void put_slots(glance *g, JSValueConst object, uint32_t *shown, int depth) {
    hf_slot slot;
    for (uint32_t i = 0, count = hf_slots(object); i < count && g->slots; i++) {
        g->slots--;
        if (!hf_slot_at(object, i, &slot) || slot.kind == HF_LAZY || !(slot.flags & JS_PROP_ENUMERABLE)) continue;
        if (hf_is_private(guest.ctx, slot.name)) continue;
        if (!separate(g, shown)) return;
        put_key(g, slot.name);
        hf_put_text(g->out, ": ");
        if (slot.kind == HF_ACCESSOR)
            guest_put_accessor(g->out, &slot);
        else
            put_value(g, slot.value, depth + 1);
    }
}

static void put_body(glance *g, JSValueConst object, int depth) {
    uint32_t shown = 0;
    hf_put_char(g->out, '{');
    put_slots(g, object, &shown, depth);
    hf_put_text(g->out, shown ? " }" : "}");
}

static void put_array(glance *g, JSValueConst array, int depth) {
    uint32_t count, shown = 0;
    const JSValue *elements = hf_elements(array, &count);
    hf_put_char(g->out, '[');
    for (uint32_t i = 0; i < count && i < ELEMENTS_MAX && separate(g, &shown); i++) put_value(g, elements[i], depth + 1);
    put_more(g, count > ELEMENTS_MAX ? count - ELEMENTS_MAX : 0, &shown);
    put_slots(g, array, &shown, depth);
    hf_put_text(g->out, shown ? " ]" : "]");
}

static void put_entries(glance *g, JSValueConst collection, bool pairs, int depth) {
    JSValueConst key, value;
    uint32_t shown = 0, count = hf_size(collection);
    void *at = NULL;
    hf_put_text(g->out, pairs ? "Map" : "Set");
    put_count(g, count);
    hf_put_char(g->out, '{');
    while (shown < ELEMENTS_MAX && (at = hf_next_entry(collection, at, &key, &value)) && separate(g, &shown)) {
        put_value(g, key, depth + 1);
        if (!pairs) continue;
        hf_put_text(g->out, " => ");
        put_value(g, value, depth + 1);
    }
    put_more(g, count > ELEMENTS_MAX ? count - ELEMENTS_MAX : 0, &shown);
    hf_put_text(g->out, shown ? " }" : "}");
}

static void put_bytes(glance *g, JSValueConst object) {
    size_t length;
    uint32_t shown = 0, count;
    bool is_view = hf_is_view(object, &count);
    put_class(g, object);
    if (!is_view) {
        hf_bytes(object, &length);
        hf_put_text(g->out, " { byteLength: ");
        hf_put_integer(g->out, (int64_t)length);
        hf_put_text(g->out, " }");
        return;
    }
    put_count(g, count);
    hf_put_char(g->out, '[');
    for (uint32_t i = 0; i < count && i < ELEMENTS_MAX && separate(g, &shown); i++) { /* reading a number runs nothing */
        JSValue number = JS_GetPropertyUint32(guest.ctx, object, i);
        put_value(g, number, 1);
        JS_FreeValue(guest.ctx, number);
    }
    put_more(g, count > ELEMENTS_MAX ? count - ELEMENTS_MAX : 0, &shown);
    hf_put_text(g->out, shown ? " ]" : "]");
}

static void put_error(glance *g, JSValueConst error) {
    JSContext *ctx = guest.ctx;
    hf_put_char(g->out, '[');
    if (!put_free(g, hf_inherited(ctx, error, guest.name))) hf_put_text(g->out, "Error");
    JSValue message = hf_inherited(ctx, error, guest.message);
    if (JS_IsString(message)) hf_put_text(g->out, ": ");
    put_free(g, message);
    hf_put_char(g->out, ']');
}

static void put_function(glance *g, JSValueConst function) {
    size_t length;
    const char *source = JS_IsProxy(function) ? NULL : hf_source(function, &length);
    bool is_class = source && length > 5 && !memcmp(source, "class", 5);
    hf_put_text(g->out, is_class ? "[class " : "[Function: ");
    if (JS_IsProxy(function) || !put_free(g, hf_own_data(guest.ctx, function, guest.name))) hf_put_text(g->out, "(anonymous)");
    hf_put_char(g->out, ']');
}

static void put_promise(glance *g, JSValueConst promise, int depth) {
    JSPromiseStateEnum state;
    JSValueConst result = hf_settled(promise, &state);
    hf_put_text(g->out, "Promise { ");
    if (state != JS_PROMISE_FULFILLED) hf_put_text(g->out, state == JS_PROMISE_PENDING ? "<pending>" : "<rejected> ");
    if (state != JS_PROMISE_PENDING) put_value(g, result, depth + 1);
    hf_put_text(g->out, " }");
}

static void put_other(glance *g, JSValueConst object, int depth) {
    JSValueConst pattern;
    const char *flags = hf_pattern(object, &pattern);
    if (flags) {
        hf_put_char(g->out, '/');
        put_string(g, pattern, false);
        hf_put_char(g->out, '/');
        hf_put_text(g->out, flags);
    } else if (JS_IsPromise(object))
        put_promise(g, object, depth);
    else {
        put_class(g, object);
        hf_put_char(g->out, ' ');
        put_body(g, object, depth);
    }
}

static void put_plain(glance *g, JSValueConst object, int depth) {
    if (hf_is_bare(object))
        hf_put_text(g->out, "[Object: null prototype] ");
    else if (is_named_object(object)) {
        put_class(g, object);
        hf_put_char(g->out, ' ');
    }
    put_body(g, object, depth);
}

static void put_object(glance *g, JSValueConst object, int depth) {
    JSContext *ctx = guest.ctx;
    enum hf_class class = hf_classify(ctx, object);
    for (int i = 0; i < depth; i++) {
        if (g->path[i] != JS_VALUE_GET_PTR(object)) continue;
        hf_put_text(g->out, "[Circular]");
        return;
    }
    if (depth > DEEPEST && (class == HF_PLAIN || class == HF_ARRAY || class == HF_MAP || class == HF_SET || class == HF_OTHER)) {
        hf_put_char(g->out, '[');
        put_class(g, object);
        hf_put_char(g->out, ']');
        return;
    }
    if (depth <= DEEPEST) g->path[depth] = JS_VALUE_GET_PTR(object);
    switch (class) {
    case HF_PLAIN:
        put_plain(g, object, depth);
        break;
    case HF_ARRAY:
        put_array(g, object, depth);
        break;
    case HF_CALLABLE:
        put_function(g, object);
        break;
    case HF_ERROR:
        put_error(g, object);
        break;
    case HF_DATE:
        put_free(g, hf_date_text(ctx, object));
        break;
    case HF_BOXED:
        hf_put_char(g->out, '[');
        put_class(g, object);
        hf_put_text(g->out, ": ");
        put_value(g, hf_held(object), depth + 1);
        hf_put_char(g->out, ']');
        break;
    case HF_BYTES:
        put_bytes(g, object);
        break;
    case HF_MAP:
    case HF_SET:
        put_entries(g, object, class == HF_MAP, depth);
        break;
    case HF_PROXY:
        hf_put_text(g->out, "[Proxy]");
        break;
    case HF_OTHER:
        put_other(g, object, depth);
        break;
    }
}

static void put_value(glance *g, JSValueConst value, int depth) {
    if (JS_IsObject(value))
        put_object(g, value, depth);
    else if (JS_IsString(value))
        put_string(g, value, depth > 0);
    else if (JS_VALUE_GET_TAG(value) == JS_TAG_UNINITIALIZED)
        hf_put_text(g->out, "<uninitialized>");
    else if (JS_IsBigInt(value) && hf_is_long(value))
        hf_put_text(g->out, "<bigint>"); /* its digits would take longer than they are worth */
    else
        guest_put_preview(g->out, value, HF_PREVIEW_MAX);
}

void guest_put_glance(hf_buffer *out, JSValueConst value, size_t limit) {
    glance g = {.out = out, .end = out->length + (uint32_t)limit, .slots = SLOTS_MAX};
    uint32_t start = out->length;
    put_value(&g, value, 0);
    guest_clip(out, start, limit);
}

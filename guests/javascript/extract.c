/* The JSON in what a model said. In C because answers may be long, and may be made to keep whoever reads them busy. */
#include <string.h>
#include <strings.h>

#include "guest.h"

#define FENCE "```"
enum { FENCE_LENGTH = 3 };

typedef struct {
    char *data; /* ours, with a NUL at its end */
    size_t length;
} text;

JSValue guest_parse_any(const char *data, size_t length) {
    bool before = hf_soft_stack;
    hf_soft_stack = true; /* too deep is as bad as anything else that is no JSON */
    JSValue value = JS_ParseJSON(guest.ctx, data, length, "<json>");
    hf_soft_stack = before;
    return value;
}

/* An object or an array, or undefined. */
static JSValue parse_part(text whole, size_t start, size_t end) {
    char after = whole.data[end];
    whole.data[end] = 0;
    JSValue value = guest_parse_any(whole.data + start, end - start);
    whole.data[end] = after;
    if (JS_IsObject(value)) return value;
    JS_FreeValue(guest.ctx, JS_IsException(value) ? JS_GetException(guest.ctx) : value);
    return JS_UNDEFINED;
}

/* ---- between fences ------------------------------------------------------------------------------------------------------ */

static const char *find_fence(const char *from, const char *end) {
    return memmem(from, (size_t)(end - from), FENCE, FENCE_LENGTH);
}

/* What stands in the first block of code, or in the first that is said to be JSON. */
static JSValue parse_fenced(text whole, const char *language) {
    const char *end = whole.data + whole.length;
    size_t named = strlen(language);
    for (const char *at = whole.data; (at = find_fence(at, end)); at += FENCE_LENGTH) {
        const char *first = at + FENCE_LENGTH;
        if (strncasecmp(first, language, named)) continue;
        const char *last = find_fence(first + named, end);
        if (!last) return JS_UNDEFINED;
        return parse_part(whole, (size_t)(first + named - whole.data), (size_t)(last - whole.data));
    }
    return JS_UNDEFINED;
}

/* ---- anywhere ------------------------------------------------------------------------------------------------------------ */

/* Where the value that begins here ends, by its brackets, or 0. Those in strings do not count. */
static size_t end_of(text whole, size_t start) {
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = start; i < whole.length; i++) {
        char c = whole.data[i];
        if (c == '"')
            in_string = !in_string;
        else if (in_string)
            i += c == '\\';
        else if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return i + 1;
    }
    return 0;
}

/* Most brackets in prose are followed by what no JSON has there. */
static bool may_begin(const char *after, char bracket) {
    while (*after == ' ' || *after == '\t' || *after == '\r' || *after == '\n') after++; /* strspn may look for the end first */
    return *after && strchr(bracket == '{' ? "\"}" : "\"{[]-0123456789tfn", *after);
}

static JSValue parse_embedded(text whole, char bracket) {
    enum { LOOKS = 4, LEAST = 1 << 20 };
    size_t patience = LOOKS * whole.length + LEAST; /* a text may be nothing but brackets */
    for (size_t at = 0; at < whole.length; at++) {
        const char *found = memchr(whole.data + at, bracket, whole.length - at);
        if (!found) break;
        at = (size_t)(found - whole.data);
        if (!may_begin(found + 1, bracket)) continue;
        size_t end = end_of(whole, at), looked = (end ? end : whole.length) - at;
        JSValue value = end ? parse_part(whole, at, end) : JS_UNDEFINED;
        if (!JS_IsUndefined(value)) return value;
        if (looked > patience) break;
        patience -= looked;
    }
    return JS_UNDEFINED;
}

/* ---- all of it ----------------------------------------------------------------------------------------------------------- */

JSValue guest_extract(const char *data, size_t length) {
    text whole = {guest_copy(data, length), length};
    JSValue value = parse_part(whole, 0, length);
    if (JS_IsUndefined(value)) value = parse_fenced(whole, "json");
    if (JS_IsUndefined(value)) value = parse_fenced(whole, "");
    if (JS_IsUndefined(value)) value = parse_embedded(whole, '{');
    if (JS_IsUndefined(value)) value = parse_embedded(whole, '[');
    hf_free(whole.data);
    return JS_IsUndefined(value) ? JS_NULL : value;
}

/* Plain JSON for scripts: alc.json_encode and alc.json_decode, which know no tags.
 *
 * Tables are read as they are in memory, as in encode.c. A table with a first element is an array, whatever else is in it; an empty one
 * is an object, unless it is marked as an array. Keys are sorted.
 */
#include <math.h>
#include <string.h>

#include "guest.h"
#include "table.h"

enum { OUTPUT_MAX = 64 << 20, FEW = 8 };

struct writer {
    hf_buffer out;
    const char *wrong, *type; /* why there is no text, and of what type the culprit is */
    const Table *levels[HF_DEPTH_MAX];
};

static void write(struct writer *w, const TValue *value, unsigned depth);

static void refuse(struct writer *w, const char *wrong, const TValue *culprit) {
    if (w->wrong) return;
    w->wrong = wrong;
    w->type = hf_lua_type(culprit);
}

static void put_float(hf_buffer *out, double number) {
    if (!isfinite(number))
        hf_put_text(out, "null");
    else if (number == 0 && signbit(number))
        hf_put_text(out, "-0.0");
    else
        hf_lua_put_float(out, number);
}

static void write_array(struct writer *w, Table *table, lua_Unsigned count, unsigned depth) {
    hf_put_char(&w->out, '[');
    for (lua_Unsigned i = 1; i <= count && !w->wrong; i++) {
        if (i > 1) hf_put_char(&w->out, ',');
        write(w, luaH_getint(table, (lua_Integer)i), depth);
    }
    hf_put_char(&w->out, ']');
}

static void write_key(struct writer *w, const TValue *key) {
    switch (ttypetag(key)) {
        case LUA_VSHRSTR:
        case LUA_VLNGSTR: hf_put_string(&w->out, hf_text(key), hf_length(key)); return;
        case LUA_VFALSE: hf_put_text(&w->out, "\"false\""); return;
        case LUA_VTRUE: hf_put_text(&w->out, "\"true\""); return;
        default: break;
    }
    if (!ttisnumber(key)) {
        refuse(w, "unsupported key type", key);
        return;
    }
    hf_put_char(&w->out, '"');
    if (ttisinteger(key))
        hf_put_integer(&w->out, ivalue(key));
    else
        hf_lua_put_float(&w->out, fltvalue(key));
    hf_put_char(&w->out, '"');
}

static void write_object(struct writer *w, Table *table, size_t count, unsigned depth) {
    hf_entry few[FEW], *entries = count <= FEW ? few : hf_malloc(count * sizeof *entries);
    hf_lua_entries(table, entries, count);
    hf_put_char(&w->out, '{');
    for (size_t i = 0; i < count && !w->wrong; i++) {
        if (i) hf_put_char(&w->out, ',');
        write_key(w, &entries[i].key);
        hf_put_char(&w->out, ':');
        write(w, entries[i].value, depth);
    }
    hf_put_char(&w->out, '}');
    if (entries != few) hf_free(entries);
}

static void write_table(struct writer *w, const TValue *value, unsigned depth) {
    Table *table = hvalue(value);
    for (unsigned i = 0; i < depth; i++)
        if (w->levels[i] == table) {
            refuse(w, "recursive table", value);
            return;
        }
    if (depth == HF_DEPTH_MAX) {
        refuse(w, "nested too deep", value);
        return;
    }
    w->levels[depth] = table;
    hf_shape shape = hf_lua_shape(table);
    lua_Unsigned length = shape.sequence ? shape.length : luaH_getn(table);
    if (shape.sequence || length)
        write_array(w, table, length, depth + 1);
    else
        write_object(w, table, shape.count, depth + 1);
}

static void write(struct writer *w, const TValue *value, unsigned depth) {
    if (w->out.length > OUTPUT_MAX) hf_breach(HF_OUTPUT, OUTPUT_MAX, w->out.length); /* shared tables may repeat without end */
    switch (ttypetag(value)) {
        case LUA_VFALSE: hf_put_text(&w->out, "false"); break;
        case LUA_VTRUE: hf_put_text(&w->out, "true"); break;
        case LUA_VNUMINT: hf_put_integer(&w->out, ivalue(value)); break;
        case LUA_VNUMFLT: put_float(&w->out, fltvalue(value)); break;
        case LUA_VSHRSTR:
        case LUA_VLNGSTR: hf_put_string(&w->out, hf_text(value), hf_length(value)); break;
        case LUA_VTABLE: write_table(w, value, depth); break;
        default:
            if (ttisnil(value) || (ttislightuserdata(value) && pvalue(value) == &hf_lua_null))
                hf_put_text(&w->out, "null");
            else
                refuse(w, "unsupported value type", value);
    }
}

static int encode(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    struct writer w;
    w.out = (hf_buffer){0};
    w.wrong = NULL;
    write(&w, hf_lua_top(L), 0);
    if (!w.wrong) lua_pushlstring(L, w.out.data, w.out.length);
    hf_buffer_free(&w.out);
    if (w.wrong) return luaL_error(L, "alc.json_encode: %s (a %s)", w.wrong, w.type);
    return 1;
}

static size_t after_spaces(const char *text, size_t length, size_t at) {
    while (at < length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) at++;
    return at;
}

static int decode(lua_State *L) {
    size_t length, at = 0;
    const char *text = luaL_checklstring(L, 1, &length);
    lua_settop(L, 1);
    int read = hf_lua_decode_plain(L, text, length, &at);
    if (read && (at = after_spaces(text, length, at)) == length) return 1;
    return luaL_error(L, "alc.json_decode: invalid JSON at position %I of %I", (LUAI_UACINT)at + 1, (LUAI_UACINT)length);
}

/* ---- JSON somewhere in a text ----------------------------------------------------------------------------------------------------------- */

static const char *skim(const char *at, const char *end, unsigned depth);

static const char *skim_spaces(const char *at, const char *end) { return at + after_spaces(at, (size_t)(end - at), 0); }

static const char *skim_string(const char *at, const char *end) { /* behind the opening quote */
    for (; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : NULL;
}

static const char *skim_container(const char *at, const char *end, unsigned depth, char close) { /* behind the opening bracket */
    at = skim_spaces(at, end);
    if (at < end && *at == close) return at + 1;
    for (;;) {
        if (close == '}') {
            if (at == end || *at != '"' || !(at = skim_string(at + 1, end))) return NULL;
            at = skim_spaces(at, end);
            if (at == end || *at++ != ':') return NULL;
            at = skim_spaces(at, end);
        }
        if (!(at = skim(at, end, depth))) return NULL;
        at = skim_spaces(at, end);
        if (at == end || (*at != close && *at != ',')) return NULL;
        if (*at++ == close) return at;
        at = skim_spaces(at, end);
    }
}

/* Where the value that begins here ends; NULL if it is none. What passes may still be none, but all that is one passes. Nothing is built, since
 * a text may have as many beginnings as characters. */
static const char *skim(const char *at, const char *end, unsigned depth) {
    if (at == end || depth > HF_DEPTH_MAX) return NULL;
    if (*at == '"') return skim_string(at + 1, end);
    if (*at == '{' || *at == '[') return skim_container(at + 1, end, depth + 1, *at == '{' ? '}' : ']');
    const char *start = at;
    while (at < end && *at && strchr("+-.0123456789aeflnrstuE", *at)) at++;
    return at > start ? at : NULL;
}

/* text, position -> the value that begins there, if one does */
static int decode_at(lua_State *L) {
    size_t length, at = (size_t)luaL_checkinteger(L, 2) - 1;
    const char *text = luaL_checklstring(L, 1, &length);
    lua_settop(L, 1);
    return at < length && skim(text + at, text + length, 0) && hf_lua_decode_plain(L, text, length, &at);
}

static int is_list(lua_State *L) { /* of a table: whether it is an array to JSON */
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushboolean(L, hf_lua_shape(hvalue(hf_lua_top(L))).sequence);
    return 1;
}

void hf_lua_open_json(lua_State *L) {
    lua_pushcfunction(L, encode);
    lua_setfield(L, -3, "json_encode");
    lua_pushcfunction(L, decode);
    lua_setfield(L, -3, "json_decode");
    lua_pushcfunction(L, decode_at);
    lua_setfield(L, -2, "decode_at");
    lua_pushcfunction(L, is_list);
    lua_setfield(L, -2, "is_list");
}

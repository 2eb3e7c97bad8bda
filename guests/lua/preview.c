/* What a person sees of a value: strings and numbers as they are, tables as a short Lua-like text. */
#include <stdio.h>
#include <string.h>

#include "table.h"

enum { DEEPEST = 3, FEW = 8, ENTRIES_MAX = 20000 };

static uint32_t patience; /* how many entries of tables may still be looked at: nearly all of a large one are not shown */

static const char ellipsis[] = "\xE2\x80\xA6";

static int full(const hf_buffer *out) { return out->length > HF_PREVIEW_MAX; }

static void show(hf_buffer *out, const TValue *value, unsigned depth);

static void show_number(hf_buffer *out, const TValue *value) {
    char text[40];
    if (ttisinteger(value)) {
        hf_put_integer(out, ivalue(value));
        return;
    }
    lua_number2str(text, sizeof text, fltvalue(value));
    hf_put_text(out, text);
    if (!text[strspn(text, "-0123456789")]) hf_put_text(out, ".0"); /* 1.0, as tostring has it */
}

static int plain(unsigned char c) { return c >= 0x20 && c != 0x7F && c != '"' && c != '\\'; }

static void show_string(hf_buffer *out, const TValue *value) {
    const char *text = hf_text(value);
    hf_put_char(out, '"');
    for (size_t i = 0, length = hf_length(value); i < length && !full(out); i++) {
        char code[8];
        unsigned char c = (unsigned char)text[i];
        if (plain(c)) {
            hf_put_char(out, (char)c);
            continue;
        }
        snprintf(code, sizeof code, c == '"' || c == '\\' ? "\\%c" : c == '\n' ? "\\n" : "\\%d", c);
        hf_put_text(out, code);
    }
    hf_put_char(out, '"');
}

static void show_key(hf_buffer *out, const TValue *key, unsigned depth) {
    if (ttisstring(key) && hf_lua_is_name(key))
        hf_put(out, hf_text(key), hf_length(key));
    else {
        hf_put_char(out, '[');
        show(out, key, depth);
        hf_put_char(out, ']');
    }
    hf_put_text(out, " = ");
}

static void show_entries(hf_buffer *out, Table *table, size_t count, unsigned depth) {
    hf_entry few[FEW], *entries = count <= FEW ? few : hf_malloc(count * sizeof *entries);
    hf_lua_entries(table, entries, count);
    size_t in_order = 0; /* keys 1, 2, 3 ... come first and need not be written */
    while (in_order < count && ttisinteger(&entries[in_order].key) && ivalue(&entries[in_order].key) == (lua_Integer)in_order + 1)
        in_order++;
    for (size_t i = 0; i < count && !full(out); i++) {
        if (i) hf_put_text(out, ", ");
        if (i >= in_order) show_key(out, &entries[i].key, depth);
        show(out, entries[i].value, depth);
    }
    if (entries != few) hf_free(entries);
}

static void show_head(hf_buffer *out, Table *table, unsigned depth) { /* of a table that is too large to be sorted */
    hf_put_char(out, '{');
    for (lua_Integer i = 1; !full(out); i++) {
        const TValue *value = luaH_getint(table, i);
        if (isempty(value)) break;
        if (depth == DEEPEST) break;
        show(out, value, depth + 1);
        hf_put_text(out, ", ");
    }
    hf_put_text(out, ellipsis);
    hf_put_char(out, '}');
}

static void show_table(hf_buffer *out, Table *table, unsigned depth) {
    uint32_t size = luaH_realasize(table) + (uint32_t)sizenode(table);
    if (size > patience) {
        show_head(out, table, depth);
        return;
    }
    patience -= size;
    size_t count = hf_lua_shape(table).count;
    hf_put_char(out, '{');
    if (count && depth == DEEPEST)
        hf_put_text(out, ellipsis);
    else if (count)
        show_entries(out, table, count, depth + 1);
    hf_put_char(out, '}');
}

static void show(hf_buffer *out, const TValue *value, unsigned depth) {
    char text[40];
    switch (ttype(value)) {
        case LUA_TNIL: hf_put_text(out, "nil"); break;
        case LUA_TBOOLEAN: hf_put_text(out, ttistrue(value) ? "true" : "false"); break;
        case LUA_TNUMBER: show_number(out, value); break;
        case LUA_TSTRING: show_string(out, value); break;
        case LUA_TTABLE: show_table(out, hvalue(value), depth); break;
        default:
            if (ttislightuserdata(value) && pvalue(value) == &hf_lua_null) {
                hf_put_text(out, "null");
                break;
            }
            snprintf(text, sizeof text, "%s: %p", hf_lua_type(value), hf_lua_address(value));
            hf_put_text(out, text);
    }
}

/* ---- the top value ------------------------------------------------------------------------------------------------------------------ */

static int to_string(lua_State *L) {
    luaL_tolstring(L, 1, NULL);
    return 1;
}

/* A script's own __tostring, if it works. It runs where it cannot wait. */
static int own_text(hf_buffer *out, lua_State *L) {
    if (luaL_getmetafield(L, -1, "__tostring") == LUA_TNIL) return 0;
    lua_pop(L, 1);
    lua_pushcfunction(L, to_string);
    lua_pushvalue(L, -2);
    int worked = lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING;
    if (worked) {
        size_t length;
        const char *text = lua_tolstring(L, -1, &length);
        hf_put(out, text, hf_clip(text, length, HF_PREVIEW_MAX + 8));
    }
    lua_pop(L, 1);
    return worked;
}

static void put_clipped(hf_buffer *out, hf_buffer *text, size_t limit) { /* as JSON; frees the text */
    if (text->length > limit) {
        text->length = (uint32_t)hf_clip(text->data, text->length, limit - strlen(ellipsis));
        hf_put_text(text, ellipsis);
    }
    hf_put_string(out, text->data ? text->data : "", text->length);
    hf_buffer_free(text);
}

void hf_lua_preview(hf_buffer *out, lua_State *L) {
    hf_buffer text = {0};
    hf_lua_reserve(L, 4);
    if (lua_type(L, -1) == LUA_TSTRING) {
        const TValue *value = hf_lua_top(L);
        hf_put(&text, hf_text(value), hf_clip(hf_text(value), hf_length(value), HF_PREVIEW_MAX + 8));
    } else if (!own_text(&text, L)) {
        patience = UINT32_MAX;
        show(&text, hf_lua_top(L), 0);
    }
    put_clipped(out, &text, HF_PREVIEW_MAX);
}

void hf_lua_glance(hf_buffer *out, const TValue *value, size_t limit) {
    hf_buffer text = {0};
    patience = ENTRIES_MAX;
    if (ttisstring(value))
        hf_put(&text, hf_text(value), hf_clip(hf_text(value), hf_length(value), HF_PREVIEW_MAX + 8));
    else
        show(&text, value, 0);
    put_clipped(out, &text, limit);
}

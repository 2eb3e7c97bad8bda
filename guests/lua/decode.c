/* JSON to values: a strict parser that builds on the Lua stack, and knows the tags that encode.c and its like write.
 *
 * An object is tagged if its first key is "$" and that key's value is a tag we know; in any other place "$" is a key like others.
 */
#include <stdlib.h>
#include <string.h>

#include "guest.h"

struct reader {
    lua_State *L;
    const char *at, *end;
    hf_buffer text; /* of the present string, when it has escapes, or number */
    int tags;       /* whether they mean anything */
};

static int read_value(struct reader *r, unsigned depth, int inside);
static int read_members(struct reader *r, unsigned depth);

static void skip(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static int accept(struct reader *r, char character) {
    skip(r);
    if (r->at == r->end || *r->at != character) return 0;
    r->at++;
    return 1;
}

static int word(struct reader *r, const char *text) {
    size_t length = strlen(text);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, text, length)) return 0;
    r->at += length;
    return 1;
}

/* ---- strings -------------------------------------------------------------------------------------------------------------------- */

static int read_hex(struct reader *r, unsigned *code) {
    if (r->end - r->at < 4) return 0;
    *code = 0;
    for (int i = 0; i < 4; i++) {
        char c = *r->at++;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return 0;
        *code = *code << 4 | (unsigned)digit;
    }
    return 1;
}

static void put_code(hf_buffer *out, unsigned code) { /* a lone surrogate takes three bytes, like its neighbours */
    if (code < 0x80) {
        hf_put_char(out, (char)code);
        return;
    }
    if (code < 0x800)
        hf_put_char(out, (char)(0xC0 | code >> 6));
    else if (code < 0x10000) {
        hf_put_char(out, (char)(0xE0 | code >> 12));
        hf_put_char(out, (char)(0x80 | (code >> 6 & 0x3F)));
    } else {
        hf_put_char(out, (char)(0xF0 | code >> 18));
        hf_put_char(out, (char)(0x80 | (code >> 12 & 0x3F)));
        hf_put_char(out, (char)(0x80 | (code >> 6 & 0x3F)));
    }
    hf_put_char(out, (char)(0x80 | (code & 0x3F)));
}

static int read_unicode(struct reader *r) {
    unsigned code, low;
    if (!read_hex(r, &code)) return 0;
    if (code >= 0xD800 && code < 0xDC00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        const char *back = r->at;
        r->at += 2;
        if (!read_hex(r, &low)) return 0;
        if (low >= 0xDC00 && low < 0xE000)
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        else
            r->at = back;
    }
    put_code(&r->text, code);
    return 1;
}

static int read_escape(struct reader *r) {
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end) return 0;
    char name = *r->at++;
    if (name == 'u') return read_unicode(r);
    const char *found = name ? strchr(names, name) : NULL;
    if (!found) return 0;
    hf_put_char(&r->text, meant[found - names]);
    return 1;
}

static int read_string(struct reader *r) { /* the opening quote is read; pushes the string */
    const char *start = r->at;
    int wide = 0;
    r->text.length = 0;
    for (;;) {
        if (r->at == r->end) return 0;
        unsigned char c = (unsigned char)*r->at;
        if (c == '"' || c == '\\') {
            size_t length = (size_t)(r->at - start);
            if (wide && !hf_is_utf8(start, length)) return 0;
            r->at++;
            if (c == '"' && !r->text.length) {
                lua_pushlstring(r->L, start, length);
                return 1;
            }
            hf_put(&r->text, start, length);
            if (c == '"') {
                lua_pushlstring(r->L, r->text.data, r->text.length);
                return 1;
            }
            if (!read_escape(r)) return 0;
            start = r->at;
            wide = 0;
        } else if (c < 0x20)
            return 0;
        else {
            wide |= c >= 0x80;
            r->at++;
        }
    }
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------------------- */

static int digits(struct reader *r) {
    const char *start = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    return r->at > start;
}

static int read_number(struct reader *r) {
    const char *start = r->at;
    if (*r->at == '-') r->at++;
    if (r->at < r->end && *r->at == '0')
        r->at++;
    else if (!digits(r))
        return 0;
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (!digits(r)) return 0;
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        if (!digits(r)) return 0;
    }
    r->text.length = 0;
    hf_put(&r->text, start, (size_t)(r->at - start));
    hf_put_char(&r->text, 0);
    return lua_stringtonumber(r->L, r->text.data) != 0; /* an integer if it has the form of one and fits, else a float */
}

/* ---- tags: the table of the object is at the top, and is replaced; the value's text, if any, was read into its "v" --------------- */

static void nothing(lua_State *L, int inside) {
    if (inside)
        lua_pushlightuserdata(L, &hf_lua_null);
    else
        lua_pushnil(L);
}

static int tag_undefined(lua_State *L, int inside) {
    nothing(L, inside);
    return 1;
}

static int tag_number(lua_State *L, int inside) {
    const char *name = lua_tostring(L, -1);
    if (!name) return 0;
    double number = !strcmp(name, "NaN")         ? __builtin_nan("")
                    : !strcmp(name, "Infinity")  ? __builtin_inf()
                    : !strcmp(name, "-Infinity") ? -__builtin_inf()
                                                 : -0.0;
    if (number == 0 && strcmp(name, "-0")) return 0;
    lua_pushnumber(L, number);
    return 1;
}

static int tag_bigint(lua_State *L, int inside) {
    const char *text = lua_tostring(L, -1);
    if (!text) return 0;
    size_t sign = *text == '-', length = strspn(text + sign, "0123456789");
    return length && !text[sign + length] && lua_stringtonumber(L, text);
}

static int tag_date(lua_State *L, int inside) {
    if (lua_type(L, -1) == LUA_TNUMBER)
        lua_pushvalue(L, -1);
    else
        lua_pushnumber(L, __builtin_nan("")); /* a date that is none */
    return 1;
}

static int tag_bytes(lua_State *L, int inside) {
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);
    if (!text) return 0;
    char *bytes = hf_malloc(length / 4 * 3 + 1);
    int decoded = hf_base64_decode(text, length, bytes);
    if (decoded >= 0) lua_pushlstring(L, bytes, (size_t)decoded);
    hf_free(bytes);
    return decoded >= 0;
}

static int tag_map(lua_State *L, int inside) {
    if (!lua_istable(L, -1)) return 0;
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    lua_newtable(L);
    for (lua_Integer i = 1; i <= count; i++) {
        if (lua_rawgeti(L, -2, i) != LUA_TTABLE) return 0;
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, 2);
        if (lua_isnil(L, -2) || (lua_type(L, -2) == LUA_TNUMBER && lua_tonumber(L, -2) != lua_tonumber(L, -2))) return 0;
        lua_rawset(L, -4);
        lua_pop(L, 1);
    }
    return 1;
}

static int tag_set(lua_State *L, int inside) {
    if (!lua_istable(L, -1)) return 0;
    lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
    lua_newtable(L);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, -2, i);
        if (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) != lua_tonumber(L, -1)) return 0;
        lua_pushboolean(L, 1);
        lua_rawset(L, -3);
    }
    return 1;
}

static int tag_error(lua_State *L, int inside) {
    if (!lua_istable(L, -1)) { /* the fields are beside the tag */
        lua_pushvalue(L, -2);
        lua_pushnil(L);
        lua_setfield(L, -2, "$");
    }
    hf_lua_adopt_failure(L);
    return 1;
}

static int tag_object(lua_State *L, int inside) {
    if (!lua_istable(L, -1)) return 0;
    lua_pushvalue(L, -1);
    return 1;
}

static const struct {
    const char *name;
    int (*make)(lua_State *L, int inside); /* object and its "v" are at the top; pushes the value or returns 0 */
} tags[] = {
    {"undefined", tag_undefined}, {"number", tag_number}, {"bigint", tag_bigint}, {"date", tag_date}, {"bytes", tag_bytes},
    {"map", tag_map},             {"set", tag_set},       {"error", tag_error},   {"object", tag_object},
};

/* ---- containers ---------------------------------------------------------------------------------------------------------------------- */

static int read_array(struct reader *r, unsigned depth) {
    lua_newtable(r->L);
    hf_lua_mark_array(r->L, -1);
    if (accept(r, ']')) return 1;
    for (lua_Integer i = 1;; i++) {
        if (!read_value(r, depth + 1, 1)) return 0;
        lua_rawseti(r->L, -2, i);
        if (accept(r, ']')) return 1;
        if (!accept(r, ',')) return 0;
    }
}

/* A member's value, in the object whose key is at the top; `plain`: it is itself an object without a tag. */
static int read_member(struct reader *r, unsigned depth, int plain) {
    if (!accept(r, ':')) return 0;
    if (plain && accept(r, '{')) {
        lua_newtable(r->L);
        if (!read_members(r, depth + 1)) return 0;
    } else if (!read_value(r, depth + 1, 1))
        return 0;
    lua_rawset(r->L, -3);
    return 1;
}

/* The members from the present one to the end, into the table at the top. */
static int read_members(struct reader *r, unsigned depth) {
    if (accept(r, '}')) return 1;
    do {
        if (!accept(r, '"') || !read_string(r) || !read_member(r, depth, 0)) return 0;
    } while (accept(r, ','));
    return accept(r, '}');
}

static int read_tagged(struct reader *r, unsigned depth, int inside, size_t tag) {
    lua_State *L = r->L;
    while (accept(r, ',')) {
        if (!accept(r, '"') || !read_string(r)) return 0;
        if (!read_member(r, depth, tags[tag].make == tag_object && !strcmp(lua_tostring(L, -1), "v"))) return 0;
    }
    if (!accept(r, '}')) return 0;
    int object = lua_gettop(L);
    lua_pushliteral(L, "v");
    lua_rawget(L, object);
    if (!tags[tag].make(L, inside)) return 0;
    lua_replace(L, object);
    lua_settop(L, object);
    return 1;
}

static int read_object(struct reader *r, unsigned depth, int inside) {
    lua_State *L = r->L;
    lua_newtable(L);
    if (accept(r, '}')) return 1;
    if (!accept(r, '"') || !read_string(r)) return 0;
    int dollar = r->tags && !strcmp(lua_tostring(L, -1), "$");
    if (!read_member(r, depth, 0)) return 0;
    if (dollar) {
        lua_pushliteral(L, "$");
        const char *name = lua_rawget(L, -2) == LUA_TSTRING ? lua_tostring(L, -1) : "";
        for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
            if (!strcmp(name, tags[i].name)) {
                lua_pop(L, 1);
                return read_tagged(r, depth, inside, i);
            }
        lua_pop(L, 1);
    }
    return accept(r, ',') ? read_members(r, depth) : accept(r, '}');
}

static int read_value(struct reader *r, unsigned depth, int inside) {
    if (depth > HF_DEPTH_MAX) return 0;
    hf_lua_reserve(r->L, 8);
    skip(r);
    if (r->at == r->end) return 0;
    switch (*r->at) {
        case '{': r->at++; return read_object(r, depth, inside);
        case '[': r->at++; return read_array(r, depth);
        case '"': r->at++; return read_string(r);
        case 't': lua_pushboolean(r->L, 1); return word(r, "true");
        case 'f': lua_pushboolean(r->L, 0); return word(r, "false");
        case 'n': nothing(r->L, inside); return word(r, "null");
        default: return (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')) && read_number(r);
    }
}

int hf_lua_decode(lua_State *L, const char *text, size_t length, int inside) {
    struct reader r = {L, text, text + length, {0}, 1};
    int top = lua_gettop(L), read = read_value(&r, 0, inside);
    skip(&r);
    read = read && r.at == r.end;
    if (!read) lua_settop(L, top);
    hf_buffer_free(&r.text);
    return read;
}

int hf_lua_decode_plain(lua_State *L, const char *text, size_t length, size_t *at) {
    struct reader r = {L, text + *at, text + length, {0}, 0};
    int top = lua_gettop(L), read = read_value(&r, 0, 0);
    if (!read) lua_settop(L, top);
    *at = (size_t)(r.at - text);
    hf_buffer_free(&r.text);
    return read;
}

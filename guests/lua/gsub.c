/* string.gsub with a function of the script's, which may wait.
 *
 * Matching is left to string.find, called as a part of this function: it finds its arguments in the first four places of the
 * stack. So places 3 and 4 are its own, and what gsub needs lives behind them.
 */
#include <string.h>

#include "guest.h"

#include "lualib.h"

static lua_CFunction lua_find, lua_gsub;

enum { SUBJECT = 1, PATTERN, FROM, PLAIN, REPLACE, STATE, RESULT }; /* places on the stack */

struct gsub { /* positions count from 1 */
    lua_Integer from;        /* where to look next */
    lua_Integer copied;      /* what lies before this is in the result */
    lua_Integer first, last; /* the present match */
    lua_Integer ended;       /* just behind the last match; an empty one there is none */
    lua_Integer count, most;
    size_t length, capacity; /* of the result, a userdata that is replaced by a larger one; there is none if nothing has changed */
    int anchored;
};

static void add(lua_State *L, struct gsub *g, const char *text, size_t length) {
    if (!g->capacity || length > g->capacity - g->length) {
        size_t capacity = 2 * g->capacity + length + 64;
        if (capacity < length) luaL_error(L, "resulting string too large");
        char *larger = lua_newuserdatauv(L, capacity, 0);
        if (g->length) memcpy(larger, lua_touserdata(L, RESULT), g->length);
        lua_replace(L, RESULT);
        g->capacity = capacity;
    }
    memcpy((char *)lua_touserdata(L, RESULT) + g->length, text, length);
    g->length += length;
}

static void add_subject(lua_State *L, struct gsub *g, lua_Integer end) {
    if (end > g->copied) add(L, g, lua_tostring(L, SUBJECT) + g->copied - 1, (size_t)(end - g->copied));
    g->copied = end;
}

/* Takes the value that the function returned, at the top. */
static void take(lua_State *L, struct gsub *g) {
    size_t length;
    if (!lua_toboolean(L, -1)) return; /* the text stays */
    const char *text = lua_tolstring(L, -1, &length);
    if (!text) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    add_subject(L, g, g->first);
    add(L, g, text, length);
    g->copied = g->last + 1;
}

/* Finds the next match. Pushes its captures, or the whole if it has none; returns how many, or 0. */
static int next_match(lua_State *L, struct gsub *g) {
    while (g->count < g->most && !(g->anchored && g->from > 1)) {
        lua_settop(L, RESULT);
        lua_pushinteger(L, g->from);
        lua_replace(L, FROM);
        int found = lua_find(L);
        if (found < 2) return 0;
        g->first = lua_tointeger(L, RESULT + 1);
        g->last = lua_tointeger(L, RESULT + 2);
        g->from = g->last + 1;
        if (g->from == g->ended) { /* empty, where the last match ended */
            g->from++;
            continue;
        }
        g->ended = g->from;
        g->count++;
        if (found == 2) lua_pushlstring(L, lua_tostring(L, SUBJECT) + g->first - 1, (size_t)(g->last - g->first + 1));
        return found == 2 ? 1 : found - 2;
    }
    return 0;
}

static int finish(lua_State *L, struct gsub *g) {
    if (!g->capacity)
        lua_pushvalue(L, SUBJECT);
    else {
        add_subject(L, g, (lua_Integer)lua_rawlen(L, SUBJECT) + 1);
        lua_pushlstring(L, lua_touserdata(L, RESULT), g->length);
    }
    lua_pushinteger(L, g->count);
    return 2;
}

static int gsub_on(lua_State *L, int status, lua_KContext unused) {
    struct gsub *g = lua_touserdata(L, STATE);
    if (status == LUA_YIELD) take(L, g);
    for (int captures; (captures = next_match(L, g));) {
        lua_pushvalue(L, REPLACE);
        lua_insert(L, -captures - 1);
        lua_callk(L, captures, 1, 0, gsub_on);
        take(L, g);
    }
    return finish(L, g);
}

/* string.find takes a pattern without any of these for plain text, even one with a ')', which in a pattern is an error. */
static int seems_plain(const char *pattern, size_t length) {
    if (!memchr(pattern, ')', length)) return 0;
    for (size_t i = 0; i < length; i++)
        if (memchr("^$*+?.([%-", pattern[i], 10)) return 0;
    return 1;
}

static int gsub(lua_State *L) {
    if (!lua_isfunction(L, 3)) return lua_gsub(L);
    size_t length, pattern_length;
    luaL_checklstring(L, SUBJECT, &length);
    const char *pattern = luaL_checklstring(L, PATTERN, &pattern_length);
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)length + 1);
    lua_settop(L, 3);
    if (seems_plain(pattern, pattern_length)) {
        lua_pushvalue(L, PATTERN);
        lua_pushliteral(L, "[^%s%S]?"); /* an item that matches nothing makes it a pattern */
        lua_concat(L, 2);
        lua_replace(L, PATTERN);
        pattern = lua_tostring(L, PATTERN);
    }
    lua_pushnil(L);
    lua_pushvalue(L, 3);
    struct gsub *g = lua_newuserdatauv(L, sizeof *g, 0);
    *g = (struct gsub){.from = 1, .copied = 1, .most = most, .anchored = *pattern == '^'};
    lua_pushnil(L);
    return gsub_on(L, LUA_OK, 0);
}

void hf_lua_open_gsub(lua_State *L) {
    lua_getglobal(L, LUA_STRLIBNAME);
    lua_getfield(L, -1, "find");
    lua_find = lua_tocfunction(L, -1);
    lua_getfield(L, -2, "gsub");
    lua_gsub = lua_tocfunction(L, -1);
    lua_pushcfunction(L, gsub);
    lua_setfield(L, -4, "gsub");
    lua_pop(L, 3);
}

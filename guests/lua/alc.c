/* The library by which a script reaches the world: `alc`, also known as `hf`.
 *
 * Nothing here reads a global or a field that a script could have replaced; a script that changes the table changes only what it
 * finds there itself.
 */
#include <math.h>
#include <string.h>

#include "guest.h"

/* ---- queries ----------------------------------------------------------------------------------------------------------------------- */

static int query(lua_State *L) {
    size_t length;
    const char *kind = luaL_checklstring(L, 1, &length);
    lua_settop(L, 2);
    return hf_lua_query(L, kind, length);
}

/* What the first argument of each shorthand is called in the payload: if it is a text, and if it is a list. */
struct shorthand {
    const char *kind, *text, *list;
};
static const struct shorthand shorthands[] = {{"llm", "prompt", "messages"}, {"ask", "question", NULL}, {"approve", "question", NULL}};

/* Copies the fields of the table at `from` into the one at the top. */
static void copy_fields(lua_State *L, int from) {
    for (lua_pushnil(L); lua_next(L, from);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
}

/* Pushes the payload made of the value at `subject` and the options, if any, at `options`; 0 if it cannot be made. */
static int push_payload(lua_State *L, const struct shorthand *s, int subject, int options) {
    const char *name = lua_isstring(L, subject) ? s->text : s->list && lua_rawlen(L, subject) ? s->list : NULL;
    if (!name && !lua_istable(L, subject)) return 0;
    lua_createtable(L, 0, 4);
    if (options && lua_istable(L, options)) copy_fields(L, options);
    if (name) {
        lua_pushstring(L, name);
        lua_pushvalue(L, subject);
        lua_rawset(L, -3);
    } else
        copy_fields(L, subject);
    return 1;
}

static int query_about(lua_State *L, const struct shorthand *s) {
    if (!lua_isstring(L, 1)) luaL_checktype(L, 1, LUA_TTABLE);
    if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    push_payload(L, s, 1, 2);
    return hf_lua_query(L, s->kind, strlen(s->kind));
}

static int llm(lua_State *L) { return query_about(L, &shorthands[0]); }
static int ask(lua_State *L) { return query_about(L, &shorthands[1]); }
static int approve(lua_State *L) { return query_about(L, &shorthands[2]); }

static int tool(lua_State *L) {
    luaL_checkstring(L, 1);
    if (!lua_isnoneornil(L, 3)) luaL_checktype(L, 3, LUA_TTABLE);
    lua_settop(L, 3);
    if (lua_isnil(L, 2)) {
        lua_newtable(L);
        lua_replace(L, 2);
    }
    lua_createtable(L, 0, 4);
    if (lua_istable(L, 3)) copy_fields(L, 3);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "name");
    lua_pushvalue(L, 2);
    lua_setfield(L, -2, "args");
    return hf_lua_query(L, "tool", 4);
}

static int sleep_for(lua_State *L) {
    double milliseconds = luaL_checknumber(L, 1);
    luaL_argcheck(L, milliseconds <= 1e15, 1, "not a time to wait for"); /* NaN is none either */
    return milliseconds > 0 ? hf_lua_sleep(L, milliseconds) : 0;
}

/* ---- batches ------------------------------------------------------------------------------------------------------------------------- */

/* All items are checked, and put beside each other in a table of our own, before the first is asked. */
static uint32_t begin_batch(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_Unsigned count = lua_rawlen(L, 1);
    luaL_argcheck(L, count <= UINT16_MAX, 1, "too many items");
    lua_createtable(L, (int)count * 2, 0);
    return (uint32_t)count;
}

static void bad_item(lua_State *L, uint32_t i, const char *expected) {
    lua_pushfstring(L, "item %d: %s expected", (int)i, expected);
    luaL_argerror(L, 1, lua_tostring(L, -1));
}

static int end_batch(lua_State *L, uint32_t count) {
    lua_settop(L, 2);
    if (count) return hf_lua_query_batch(L, count);
    lua_newtable(L);
    hf_lua_mark_array(L, -1);
    return 1;
}

static int query_batch(lua_State *L) {
    uint32_t count = begin_batch(L);
    for (uint32_t i = 1; i <= count; i++) {
        lua_settop(L, 2);
        if (lua_rawgeti(L, 1, i) != LUA_TTABLE) bad_item(L, i, "table");
        lua_pushliteral(L, "kind");
        if (lua_rawget(L, 3) != LUA_TSTRING) bad_item(L, i, "a string as 'kind'");
        lua_rawseti(L, 2, 2 * (lua_Integer)i - 1);
        lua_pushliteral(L, "payload");
        lua_rawget(L, 3);
        lua_rawseti(L, 2, 2 * (lua_Integer)i);
    }
    return end_batch(L, count);
}

static int llm_batch(lua_State *L) {
    uint32_t count = begin_batch(L);
    for (uint32_t i = 1; i <= count; i++) {
        lua_settop(L, 2);
        lua_rawgeti(L, 1, i);
        if (!push_payload(L, &shorthands[0], 3, 0)) bad_item(L, i, "string or table");
        lua_rawseti(L, 2, 2 * (lua_Integer)i);
        lua_pushliteral(L, "llm");
        lua_rawseti(L, 2, 2 * (lua_Integer)i - 1);
    }
    return end_batch(L, count);
}

/* ---- the rest -------------------------------------------------------------------------------------------------------------------------- */

static int call(lua_State *L) {
    size_t length;
    const char *name = luaL_checklstring(L, 1, &length);
    return hf_lua_call_host(L, name, length, 2);
}

static int array(lua_State *L) {
    if (lua_isnone(L, 1)) lua_newtable(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    luaL_argcheck(L, hf_lua_mark_array(L, 1), 1, "a table with a metatable cannot be marked");
    return 1;
}

void hf_lua_open_alc(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"approve", approve},     {"array", array}, {"ask", ask},
        {"call", call},           {"llm", llm},     {"llm_batch", llm_batch},
        {"query", query},         {"query_batch", query_batch},
        {"sleep", sleep_for},     {"tool", tool},   {NULL, NULL},
    };
    luaL_newlib(L, functions);
    lua_pushlightuserdata(L, &hf_lua_null);
    lua_setfield(L, -2, "null");
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE); /* so that messages know its functions by name */
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "alc");
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_setglobal(L, "hf");
    lua_setglobal(L, "alc");
}

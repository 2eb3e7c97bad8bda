/* The library by which a script reaches the world: `alc`, also known as `hf`. Here is what is best written in C; the rest is in the
 * prelude, which is given these functions and a few that no script sees.
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

/* Copies the fields of the table at `from` into the one at the top. */
static void copy_fields(lua_State *L, int from) {
    for (lua_pushnil(L); lua_next(L, from);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
}

/* A question, and options; or a table that is all of it. */
static int query_about(lua_State *L, const char *kind) {
    int text = lua_isstring(L, 1);
    if (!text) luaL_checktype(L, 1, LUA_TTABLE);
    if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    lua_createtable(L, 0, 4);
    if (lua_istable(L, 2)) copy_fields(L, 2);
    if (text) {
        lua_pushliteral(L, "question");
        lua_pushvalue(L, 1);
        lua_rawset(L, -3);
    } else
        copy_fields(L, 1);
    return hf_lua_query(L, kind, strlen(kind));
}

static int ask(lua_State *L) { return query_about(L, "ask"); }
static int approve(lua_State *L) { return query_about(L, "approve"); }

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

static int now(lua_State *L) {
    lua_pushnumber(L, hf_clock_now() / 1000);
    return 1;
}

/* ---- for the prelude ----------------------------------------------------------------------------------------------------------------- */

static int emit(lua_State *L) { /* kind, fields: a record of the step. A field that is a text is one there too, whatever bytes it has. */
    size_t length;
    const char *kind = luaL_checklstring(L, 1, &length), *separator = "";
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    hf_buffer record = {0};
    hf_put_char(&record, '[');
    hf_put_string(&record, kind, length);
    hf_put_text(&record, ",{");
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        const char *name = lua_tolstring(L, -2, &length);
        hf_put_text(&record, separator);
        hf_put_string(&record, name, length);
        hf_put_char(&record, ':');
        if (lua_type(L, -1) == LUA_TSTRING) {
            const char *text = lua_tolstring(L, -1, &length);
            hf_put_string(&record, text, length);
        } else
            hf_lua_encode(&record, L);
        separator = ",";
    }
    hf_put_text(&record, "}]");
    hf_emit(&record);
    return 0;
}

static int raise(lua_State *L) { /* an error with this text, at the place in the script that called the prelude */
    lua_Debug frame;
    luaL_checkstring(L, 1);
    lua_settop(L, 1);
    if (hf_lua_caller(L, &frame) && frame.currentline > 0) {
        lua_pushfstring(L, "%s:%d: ", frame.short_src, frame.currentline);
        lua_insert(L, 1);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int refuse(lua_State *L) { /* code, message: an error that is a table */
    return hf_lua_fail(L, luaL_checkstring(L, 1), luaL_checkstring(L, 2));
}

static int executions(lua_State *L) {
    lua_pushinteger(L, hf_lua_executions());
    return 1;
}

/* The prelude's own: a stack trace shows what the script called, and not what that called. */
static int ask_one(lua_State *L) { return query(L); }
static int ask_many(lua_State *L) { return query_batch(L); }

__attribute__((weak)) void hf_lua_open_numbers(lua_State *L); /* pushes `alc.math` */

void hf_lua_open_alc(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"approve", approve}, {"array", array},           {"ask", ask},         {"call", call}, {"query", query},
        {"query_batch", query_batch}, {"sleep", sleep_for}, {"time", now}, {"tool", tool}, {NULL, NULL},
    };
    static const luaL_Reg ours[] = {
        {"emit", emit},     {"entrance", hf_lua_entrance}, {"executions", executions}, {"query", ask_one},
        {"query_batch", ask_many}, {"raise", raise},       {"refuse", refuse},         {NULL, NULL},
    };
    luaL_newlib(L, functions);
    lua_pushlightuserdata(L, &hf_lua_null);
    lua_setfield(L, -2, "null");
    if (hf_lua_open_numbers) {
        hf_lua_open_numbers(L);
        lua_setfield(L, -2, "math");
    }
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE); /* so that messages know its functions by name */
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "alc");
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_setglobal(L, "hf");
    lua_pushvalue(L, -1);
    lua_setglobal(L, "alc");
    luaL_newlib(L, ours);
}

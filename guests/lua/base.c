/* What differs in the base libraries: output goes to events, random numbers come from the host, and debug is only a traceback. */
#include "guest.h"

#include <string.h>

#include "lualib.h"

/* ---- print and warn ---------------------------------------------------------------------------------------------------------------- */

static void console(const char *level, const char *text, size_t length) {
    hf_buffer record = {0};
    hf_put_text(&record, "[\"console\",\"");
    hf_put_text(&record, level);
    hf_put_text(&record, "\",");
    hf_put_string(&record, text, length);
    hf_put_char(&record, ']');
    hf_emit(&record);
}

static int print(lua_State *L) {
    int count = lua_gettop(L);
    size_t length;
    if (count == 1 && lua_type(L, 1) == LUA_TSTRING) { /* most often */
        const char *text = lua_tolstring(L, 1, &length);
        console("log", text, length);
        return 0;
    }
    luaL_Buffer line;
    luaL_buffinit(L, &line);
    for (int i = 1; i <= count; i++) {
        if (i > 1) luaL_addchar(&line, '\t');
        luaL_tolstring(L, i, NULL);
        luaL_addvalue(&line);
    }
    luaL_pushresult(&line);
    const char *text = lua_tolstring(L, -1, &length);
    console("log", text, length);
    return 0;
}

static hf_buffer warning; /* its pieces so far */
static int warnings_off;

static void warn(void *unused, const char *message, int more) {
    if (!more && !warning.length && *message == '@') { /* a control message */
        if (!strcmp(message, "@off")) warnings_off = 1;
        if (!strcmp(message, "@on")) warnings_off = 0;
        return;
    }
    hf_put_text(&warning, message);
    if (more) return;
    if (!warnings_off) console("warn", warning.data ? warning.data : "", warning.length);
    hf_buffer_free(&warning);
}

/* ---- random numbers ------------------------------------------------------------------------------------------------------------------ */

static char seeder; /* registry: the function that seeds math.random */
static lua_CFunction lua_randomseed;
static uint64_t step_seed;
static lua_Integer own_seeds; /* how often a script asked for a seed without giving one */

void hf_language_seed(uint64_t seed) {
    step_seed = seed;
    own_seeds = 0;
    lua_rawgetp(hf_main, LUA_REGISTRYINDEX, &seeder);
    lua_pushinteger(hf_main, (lua_Integer)seed);
    lua_pushinteger(hf_main, 0);
    lua_call(hf_main, 2, 0);
}

static int randomseed(lua_State *L) { /* has the upvalue of Lua's own, which does the work */
    if (lua_isnone(L, 1)) {
        lua_pushinteger(L, (lua_Integer)step_seed);
        lua_pushinteger(L, ++own_seeds);
    }
    return lua_randomseed(L);
}

static void open_random(lua_State *L) {
    lua_getglobal(L, LUA_MATHLIBNAME);
    lua_getfield(L, -1, "randomseed");
    lua_randomseed = lua_tocfunction(L, -1);
    lua_getupvalue(L, -1, 1);
    lua_pushcclosure(L, randomseed, 1);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &seeder);
    lua_setfield(L, -3, "randomseed");
    lua_pop(L, 2);
    hf_language_seed(0);
}

/* ---- debug ------------------------------------------------------------------------------------------------------------------------------ */

#ifdef HF_LUA_TESTS
int hf_lua_open_debug(lua_State *L) { return luaopen_debug(L); }
#else
static int traceback(lua_State *L) { /* [thread,] [message [, level]] */
    int first = lua_isthread(L, 1);
    lua_State *of = first ? lua_tothread(L, 1) : L;
    const char *message = lua_tostring(L, first + 1);
    if (!message && !lua_isnoneornil(L, first + 1)) {
        lua_pushvalue(L, first + 1); /* not a text: as it is */
        return 1;
    }
    luaL_traceback(L, of, message, (int)luaL_optinteger(L, first + 2, of == L));
    return 1;
}

int hf_lua_open_debug(lua_State *L) {
    static const luaL_Reg functions[] = {{"traceback", traceback}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
#endif

void hf_lua_open_base(lua_State *L) {
    lua_register(L, "print", print);
    lua_setwarnf(L, warn, NULL);
    open_random(L);
#ifndef HF_LUA_TESTS
    lua_getglobal(L, LUA_STRLIBNAME);
    lua_pushnil(L);
    lua_setfield(L, -2, "dump");
    lua_pop(L, 1);
#endif
}

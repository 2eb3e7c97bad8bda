/* A new guest: the state, the two threads, and the libraries that scripts get. */
#include "guest.h"

#include "lualib.h"

static char root_key; /* registry: keeps hf_root */

static int panic(lua_State *L) { /* an error on the host's thread, outside of any protected call: a bug of ours */
    __builtin_trap();
}

static void open_libraries(lua_State *L) {
    static const luaL_Reg libraries[] = {
        {LUA_GNAME, luaopen_base},       {LUA_COLIBNAME, hf_lua_open_coroutine}, {LUA_TABLIBNAME, luaopen_table},
        {LUA_STRLIBNAME, luaopen_string}, {LUA_MATHLIBNAME, luaopen_math},        {LUA_UTF8LIBNAME, luaopen_utf8},
        {LUA_OSLIBNAME, hf_lua_open_os}, {LUA_DBLIBNAME, hf_lua_open_debug},
    };
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        luaL_requiref(L, libraries[i].name, libraries[i].func, 1);
        lua_pop(L, 1);
    }
}

void hf_language_boot(void) {
    lua_State *L = hf_main = lua_newstate(hf_lua_allocate, NULL);
    if (!L) hf_lua_exhausted();
    lua_atpanic(L, panic);
    *(lua_State **)lua_getextraspace(L) = NULL; /* new threads begin with a copy of this: no resumer */
    hf_root = lua_newthread(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &root_key);
    open_libraries(L);
    hf_lua_open_values(L);
    hf_lua_open_failure(L);
    hf_lua_open_query(L);
    hf_lua_open_base(L);
    hf_lua_open_sort(L);
    hf_lua_open_gsub(L);
    hf_lua_open_require(L);
    hf_lua_open_alc(L);
    hf_lua_open_json(L);
    hf_lua_run_prelude(L);
    hf_lua_globals_boot();
    lua_settop(L, 0);
    hf_lua_collect();
    hf_lua_keep_forever();
}

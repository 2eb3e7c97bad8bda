/* require: what is in package.loaded, then what is in package.preload, then what the host offers: it says what a name means
 * and what is there. A module's body may wait.
 *
 * A module is known by its name, as always in Lua, and by what the host made of that name; a relative name means something else to
 * every caller, so it is known by the latter only.
 */
#include <string.h>

#include "guest.h"

static char loading; /* registry: modules whose bodies run */
static char guard;   /* registry: metatable of what removes them from there, however the body ends */

enum { NAME = 1, LOADED, RESOLVED, GUARD, BODY }; /* places on the stack */

static int relative(lua_State *L) {
    const char *name = lua_tostring(L, NAME);
    return !strncmp(name, "./", 2) || !strncmp(name, "../", 3);
}

static int found(lua_State *L, int key) { /* pushes the module, or nothing */
    lua_pushvalue(L, key);
    lua_rawget(L, LOADED);
    if (lua_toboolean(L, -1)) return 1;
    lua_pop(L, 1);
    return 0;
}

static void put_referrer(hf_buffer *out, lua_State *L) {
    lua_Debug frame;
    const char *source = "";
    if (hf_lua_caller(L, &frame) && (*frame.source == '@' || *frame.source == '=')) source = frame.source + 1;
    hf_put_string(out, source, strlen(source));
}

static void resolve(lua_State *L) {
    size_t length;
    hf_buffer request = {0};
    const char *name = lua_tolstring(L, NAME, &length);
    hf_put_char(&request, '[');
    hf_put_string(&request, name, length);
    hf_put_char(&request, ',');
    put_referrer(&request, L);
    hf_put_text(&request, ",\"require\"]");
    hf_lua_ask_host(L, HF_HOST_RESOLVE, &request);
    if (lua_type(L, -1) != LUA_TSTRING) hf_lua_fail(L, "BAD_REPLY", "the host did not say where a module is");
}

static void ask_for_module(lua_State *L) {
    size_t length;
    hf_buffer request = {0};
    const char *resolved = lua_tolstring(L, RESOLVED, &length);
    hf_put_char(&request, '[');
    hf_put_string(&request, resolved, length);
    hf_put_char(&request, ']');
    hf_lua_ask_host(L, HF_HOST_LOAD, &request);
    if (!lua_istable(L, -1)) hf_lua_fail(L, "BAD_REPLY", "the host did not say what a module is");
}

static const char *text_field(lua_State *L, const char *name, size_t *length) { /* of the host's reply */
    lua_pushstring(L, name);
    lua_rawget(L, BODY);
    if (lua_type(L, -1) != LUA_TSTRING) hf_lua_fail(L, "BAD_REPLY", "the host's module lacks a field");
    return lua_tolstring(L, -1, length);
}

/* ---- while a body runs ---------------------------------------------------------------------------------------------------------------- */

static int loaded(lua_State *L) { /* the guard's __close: of a table whose first field is the module */
    lua_rawgetp(L, LUA_REGISTRYINDEX, &loading);
    lua_rawgeti(L, 1, 1);
    lua_pushnil(L);
    lua_rawset(L, -3);
    return 0;
}

static void begin_loading(lua_State *L) { /* leaves the guard at the top */
    lua_rawgetp(L, LUA_REGISTRYINDEX, &loading);
    lua_pushvalue(L, RESOLVED);
    if (lua_rawget(L, -2) != LUA_TNIL)
        luaL_error(L, "module '%s' is required while it is being loaded", lua_tostring(L, NAME));
    lua_pop(L, 1);
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, RESOLVED);
    lua_rawseti(L, -2, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &guard);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, RESOLVED);
    lua_pushboolean(L, 1);
    lua_rawset(L, -4);
    lua_remove(L, -2);
    lua_toclose(L, -1);
}

void hf_lua_loading_dropped(void) {
    lua_rawgetp(hf_main, LUA_REGISTRYINDEX, &loading);
    lua_pushnil(hf_main);
    while (lua_next(hf_main, -2)) {
        lua_pop(hf_main, 1);
        lua_pushvalue(hf_main, -1);
        lua_pushnil(hf_main);
        lua_rawset(hf_main, -4);
    }
    lua_pop(hf_main, 1);
}

/* ---- the kinds of modules: the host's reply is in the place of BODY; pushes the value, or runs the body -------------------------- */

static int finish(lua_State *L) { /* the value is at the top */
    if (lua_isnil(L, -1) && !found(L, NAME) && !found(L, RESOLVED)) lua_pushboolean(L, 1);
    lua_pushvalue(L, RESOLVED);
    lua_pushvalue(L, -2);
    lua_rawset(L, LOADED);
    if (!relative(L)) {
        lua_pushvalue(L, NAME);
        lua_pushvalue(L, -2);
        lua_rawset(L, LOADED);
    }
    lua_pushvalue(L, RESOLVED);
    return 2;
}

static int body_ended(lua_State *L, int status, lua_KContext preloaded) {
    int results = finish(L);
    if (preloaded) {
        lua_pop(L, 1);
        lua_pushliteral(L, ":preload:"); /* where it was found, as Lua's own says it */
    }
    return results;
}

static int run_body(lua_State *L, int preloaded) { /* at the top: the function, at BODY, and what it is told besides its name */
    lua_pushvalue(L, NAME);
    lua_insert(L, -2);
    lua_callk(L, 2, 1, preloaded, body_ended);
    return body_ended(L, LUA_OK, preloaded);
}

static int run_script(lua_State *L) {
    size_t length;
    const char *source = text_field(L, "source", &length);
    hf_part code = hf_lua_code_of((hf_part){source, (uint32_t)length});
    lua_pushfstring(L, "@%s", lua_tostring(L, RESOLVED));
    if (luaL_loadbufferx(L, code.data, code.length, lua_tostring(L, -1), "t") != LUA_OK)
        return luaL_error(L, "error loading module '%s' from '%s':\n\t%s", lua_tostring(L, NAME), lua_tostring(L, RESOLVED),
                          lua_tostring(L, -1));
    lua_replace(L, BODY); /* the source is not needed while it runs */
    lua_settop(L, BODY);
    lua_pushvalue(L, RESOLVED);
    return run_body(L, 0);
}

static void push_preloaded(lua_State *L) {
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushvalue(L, NAME);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

static int run_preloaded(lua_State *L) { /* known by its name alone */
    lua_settop(L, LOADED);
    lua_pushvalue(L, NAME);
    begin_loading(L);
    push_preloaded(L);
    lua_pushliteral(L, ":preload:");
    return run_body(L, 1);
}

static int make_functions(lua_State *L) {
    lua_pushliteral(L, "names");
    if (lua_rawget(L, BODY) != LUA_TTABLE) hf_lua_fail(L, "BAD_REPLY", "the host's module has no names");
    int names = lua_gettop(L);
    lua_Unsigned count = lua_rawlen(L, names);
    lua_newtable(L);
    for (lua_Unsigned i = 1; i <= count; i++) {
        size_t length;
        if (lua_rawgeti(L, names, (lua_Integer)i) != LUA_TSTRING) hf_lua_fail(L, "BAD_REPLY", "a name is not a string");
        lua_pushfstring(L, "%s.%s", lua_tostring(L, RESOLVED), lua_tostring(L, -1));
        const char *name = lua_tolstring(L, -1, &length);
        hf_lua_push_host_function(L, name, length);
        lua_remove(L, -2);
        lua_rawset(L, -3);
    }
    return finish(L);
}

static int make_json(lua_State *L) {
    size_t length;
    const char *source = text_field(L, "source", &length);
    if (!hf_lua_decode(L, source, length, 0))
        return luaL_error(L, "error loading module '%s': it is not JSON", lua_tostring(L, NAME));
    return finish(L);
}

/* ---- require ------------------------------------------------------------------------------------------------------------------------ */

static int require(lua_State *L) {
    luaL_checkstring(L, NAME);
    lua_settop(L, NAME);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (!relative(L) && found(L, NAME)) return 1;
    push_preloaded(L);
    if (lua_isfunction(L, -1)) return run_preloaded(L);
    lua_pop(L, 1);
    resolve(L);
    if (found(L, RESOLVED)) return 1;
    begin_loading(L);
    ask_for_module(L);
    const char *kind = text_field(L, "kind", NULL);
    if (!strcmp(kind, "script")) return run_script(L);
    if (!strcmp(kind, "functions")) return make_functions(L);
    if (!strcmp(kind, "json")) return make_json(L);
    return luaL_error(L, "module '%s' is not one for Lua (it is of kind '%s')", lua_tostring(L, NAME), kind);
}

void hf_lua_open_require(lua_State *L) {
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &loading);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, loaded);
    lua_setfield(L, -2, "__close");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &guard);
    lua_createtable(L, 0, 2);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_setfield(L, -2, "preload");
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "package"); /* package.loaded.package */
    lua_setfield(L, -2, "loaded");
    lua_setglobal(L, "package");
    lua_register(L, "require", require);
}

/* Errors that come from outside of the script: tables with code, message and name, that show as their message. And how any error
 * is told to the host. */
#include <string.h>

#include "guest.h"

static char metatable; /* registry: of these tables */

/* Pushes a field that is a string, or nothing. */
static const char *text_field(lua_State *L, int index, const char *name) {
    index = lua_absindex(L, index);
    lua_pushstring(L, name);
    if (lua_rawget(L, index) == LUA_TSTRING) return lua_tostring(L, -1);
    lua_pop(L, 1);
    return NULL;
}

static int failure_tostring(lua_State *L) {
    if (!lua_istable(L, 1) || !text_field(L, 1, "message")) lua_pushliteral(L, "error");
    return 1;
}

static int failure_concat(lua_State *L) {
    luaL_tolstring(L, 1, NULL);
    luaL_tolstring(L, 2, NULL);
    lua_concat(L, 2);
    return 1;
}

void hf_lua_open_failure(lua_State *L) {
    static const luaL_Reg functions[] = {{"__tostring", failure_tostring}, {"__concat", failure_concat}, {NULL, NULL}};
    luaL_newlib(L, functions);
    lua_pushliteral(L, "error");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable);
}

static void set_field(lua_State *L, const char *name, const char *value) { /* of the table at the top */
    lua_pushstring(L, name);
    lua_pushstring(L, value);
    lua_rawset(L, -3);
}

void hf_lua_push_failure(lua_State *L, const char *code, const char *message) {
    lua_createtable(L, 0, 3);
    if (code) set_field(L, "code", code);
    set_field(L, "message", message);
    set_field(L, "name", "error");
    lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable);
    lua_setmetatable(L, -2);
}

void hf_lua_adopt_failure(lua_State *L) {
    if (lua_type(L, -1) == LUA_TSTRING) {
        hf_lua_push_failure(L, NULL, lua_tostring(L, -1));
        lua_remove(L, -2);
        return;
    }
    if (!lua_istable(L, -1)) {
        hf_lua_push_failure(L, NULL, "an error without a message");
        lua_remove(L, -2);
        return;
    }
    if (text_field(L, -1, "message"))
        lua_pop(L, 1);
    else
        set_field(L, "message", "an error without a message");
    if (text_field(L, -1, "name"))
        lua_pop(L, 1);
    else
        set_field(L, "name", "error");
    lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable);
    lua_setmetatable(L, -2);
}

int hf_lua_fail(lua_State *L, const char *code, const char *message) {
    hf_lua_push_failure(L, code, message);
    return lua_error(L);
}

/* ---- for the host ------------------------------------------------------------------------------------------------------------- */

static void put_field(hf_buffer *out, const char *name, const char *text, size_t length) {
    hf_put_text(out, name);
    hf_put_string(out, text, length);
}

/* The error's own field, if it is a table that has it as a string. */
static int put_own_field(hf_buffer *out, lua_State *L, const char *label, const char *name) {
    size_t length;
    if (!lua_istable(L, -1) || !text_field(L, -1, name)) return 0;
    const char *text = lua_tolstring(L, -1, &length);
    put_field(out, label, text, length);
    lua_pop(L, 1);
    return 1;
}

void hf_lua_put_failure(hf_buffer *out, lua_State *L, const char *name, const hf_buffer *stack) {
    int is_text = lua_type(L, -1) == LUA_TSTRING;
    if (!put_own_field(out, L, "{\"name\":", "name")) put_field(out, "{\"name\":", name, strlen(name));
    if (is_text) {
        size_t length;
        const char *text = lua_tolstring(L, -1, &length);
        put_field(out, ",\"message\":", text, length);
    } else if (!put_own_field(out, L, ",\"message\":", "message")) {
        hf_put_text(out, ",\"message\":");
        hf_lua_preview(out, L);
    }
    put_field(out, ",\"stack\":", stack->data ? stack->data : "", stack->length);
    put_own_field(out, L, ",\"code\":", "code");
    if (!is_text) {
        hf_put_text(out, ",\"value\":");
        hf_lua_encode(out, L);
    }
    hf_put_char(out, '}');
}

/* Calls to the host while a step runs. Host functions are known by name, so an image can be thawed in any process. */
#include "guest.h"

void hf_lua_ask_host(lua_State *L, char operation, hf_buffer *arguments) {
    char *reply;
    size_t length;
    char status = hf_host(operation, arguments, &reply, &length);
    hf_buffer_free(arguments);
    int read = hf_lua_decode(L, reply, length, 0);
    hf_free(reply);
    if (!read) hf_lua_fail(L, "BAD_REPLY", "the host's reply is not JSON");
    if (status == 'v') return;
    hf_lua_adopt_failure(L);
    lua_error(L);
}

int hf_lua_call_host(lua_State *L, const char *name, size_t length, int first) {
    hf_buffer arguments = {0};
    int top = lua_gettop(L);
    luaL_checkstack(L, 8, NULL); /* before anything is allocated outside of Lua */
    hf_put_char(&arguments, '[');
    hf_put_string(&arguments, name, length);
    hf_put_text(&arguments, ",[");
    for (int i = first; i <= top; i++) {
        if (i > first) hf_put_char(&arguments, ',');
        lua_pushvalue(L, i);
        hf_lua_encode(&arguments, L);
        lua_pop(L, 1);
    }
    hf_put_text(&arguments, "]]");
    hf_lua_ask_host(L, HF_HOST_CALL, &arguments);
    return 1;
}

static int host_function(lua_State *L) {
    size_t length;
    const char *name = lua_tolstring(L, lua_upvalueindex(1), &length);
    return hf_lua_call_host(L, name, length, 1);
}

void hf_lua_push_host_function(lua_State *L, const char *name, size_t length) {
    lua_pushlstring(L, name, length);
    lua_pushcclosure(L, host_function, 1);
}

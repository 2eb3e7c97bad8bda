/* The part of the library that is written in Lua. It is compiled and run when the guest boots, so it is part of every image.
 *
 * Each file is given two tables: the library, which it adds to, and one for what the files share, which nobody has afterwards. It keeps what
 * it uses of the language in local variables: whatever a script does to its globals later, it does to itself.
 */
#include <string.h>

#include "guest.h"

#include "lfunc.h"
#include "lmem.h"
#include "lobject.h"
#include "lstate.h"
#include "table.h"

struct hf_script {
    const char *name;
    char *text;
    unsigned size;
};
extern const struct hf_script hf_prelude[]; /* in the order in which they run; the last has no name */

static const char chunk_name[] = "=[alc]";

/* Without lines and names of variables the image is smaller, and messages show no places that a script's author has never seen. */
static void strip(lua_State *L, Proto *code) {
    luaM_freearray(L, code->lineinfo, (size_t)code->sizelineinfo);
    luaM_freearray(L, code->abslineinfo, (size_t)code->sizeabslineinfo);
    luaM_freearray(L, code->locvars, (size_t)code->sizelocvars);
    code->lineinfo = NULL;
    code->abslineinfo = NULL;
    code->locvars = NULL;
    code->sizelineinfo = code->sizeabslineinfo = code->sizelocvars = 0;
    for (int i = 0; i < code->sizeupvalues; i++) code->upvalues[i].name = NULL;
    for (int i = 0; i < code->sizep; i++) strip(L, code->p[i]);
}

static void load(lua_State *L, const struct hf_script *script) {
    if (luaL_loadbufferx(L, script->text, script->size, chunk_name, "t") != LUA_OK) lua_error(L);
    strip(L, clLvalue(hf_lua_top(L))->p);
    memset(script->text, 0, script->size); /* zeros take no room in an image */
}

/* All are loaded before the first is run, so that code, which the collector leaves alone, does not lie among what it marks. */
void hf_lua_run_prelude(lua_State *L) {
    int shared = lua_gettop(L), library = shared - 1, count = 0;
    for (; hf_prelude[count].name; count++) {
        luaL_checkstack(L, 4, NULL);
        load(L, &hf_prelude[count]);
    }
    for (int i = 1; i <= count; i++) {
        lua_pushvalue(L, shared + i);
        lua_pushvalue(L, library);
        lua_pushvalue(L, shared);
        lua_call(L, 2, 0);
    }
    lua_settop(L, library - 1);
}

/* ---- who called --------------------------------------------------------------------------------------------------------------------- */

static int entered(lua_State *L, int status, lua_KContext unused) { return lua_gettop(L); }

static int enter(lua_State *L) { /* has the function as its upvalue */
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, entered);
    return entered(L, LUA_OK, 0);
}

int hf_lua_entrance(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    lua_pushcclosure(L, enter, 1);
    return 1;
}

static int is_entrance(lua_State *L, lua_Debug *frame) {
    lua_getinfo(L, "f", frame);
    int is = lua_tocfunction(L, -1) == enter;
    lua_pop(L, 1);
    return is;
}

int hf_lua_caller(lua_State *L, lua_Debug *frame) {
    for (int level = 1; lua_getstack(L, level, frame); level++) {
        lua_getinfo(L, "Sl", frame);
        int ours = *frame->what == 'C' ? is_entrance(L, frame) : !strcmp(frame->source, chunk_name);
        if (!ours) return *frame->what != 'C';
    }
    return 0;
}

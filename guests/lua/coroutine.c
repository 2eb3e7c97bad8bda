/* The coroutine library, which passes a query's mark up and its answer down. See guest.h for the whole picture. */
#include "guest.h"

#include "lobject.h"
#include "lstate.h"

static char mark; /* its address is what a query yields */

/* ---- threads ------------------------------------------------------------------------------------------------------------------ */

/* A thread's resumer is kept in its extra space while it runs, and while it waits for a query. After an ordinary yield it has none. */
static lua_State **resumer(lua_State *co) { return (lua_State **)lua_getextraspace(co); }

static int waits(lua_State *co) { return lua_status(co) == LUA_YIELD && (*resumer(co) || co == hf_root); }

int hf_lua_is_main(lua_State *L) { return L == hf_root || L == hf_main; }

int hf_lua_can_wait(lua_State *L) {
    while (L && L != hf_root && lua_isyieldable(L)) L = *resumer(L);
    return L == hf_root && lua_isyieldable(L);
}

int hf_lua_is_mark(lua_State *L) { return lua_islightuserdata(L, -1) && lua_touserdata(L, -1) == &mark; }

static _Noreturn void yield_mark(lua_State *L, lua_KFunction then) {
    lua_pushlightuserdata(L, &mark);
    lua_yieldk(L, 1, 0, then);
    __builtin_unreachable(); /* outside of hooks a yield does not return */
}

static lua_State *asker; /* the thread that asked last: while an execution waits, the threads from this one to hf_root do */

_Noreturn void hf_lua_wait(lua_State *L, lua_KFunction then) {
    asker = L;
    yield_mark(L, then);
}

/* As coroutine.close does it, but without the __close methods of its variables. */
static void drop(lua_State *L) {
    *resumer(L) = NULL;
    L->tbclist.p = L->stack.p;
    lua_closethread(L, hf_main);
    lua_settop(L, 0);
}

void hf_lua_drop_waiting(void) {
    for (lua_State *L = asker, *next; L; L = next) {
        next = L == hf_root ? NULL : *resumer(L);
        drop(L);
    }
    asker = NULL;
}

static lua_State *thread_argument(lua_State *L) {
    lua_State *co = lua_tothread(L, 1);
    luaL_argexpected(L, co, 1, "thread");
    return co;
}

enum state { RUNNING, DEAD, SUSPENDED, NORMAL };
static const char *const state_names[] = {"running", "dead", "suspended", "normal"};

static enum state state_of(lua_State *L, lua_State *co) {
    if (L == co) return RUNNING;
    if (waits(co)) return NORMAL;
    if (lua_status(co) == LUA_YIELD) return SUSPENDED;
    if (lua_status(co) != LUA_OK) return DEAD;
    lua_Debug frame;
    if (lua_getstack(co, 0, &frame)) return NORMAL;
    return lua_gettop(co) ? SUSPENDED : DEAD; /* it still has the function that it will run */
}

/* ---- resume and wrap ------------------------------------------------------------------------------------------------------------ */

/* Runs `co` with the `count` values at the top. Returns the number of results, all at the top, or -1 and an error there.
 * If `co` asks a query, this does not return: the caller waits too and goes on in `then`, from where this is called again. */
static int run(lua_State *L, lua_State *co, int count, lua_KFunction then) {
    if (waits(co) && *resumer(co) != L) {
        lua_pushliteral(L, "cannot resume non-suspended coroutine");
        return -1;
    }
    if (!lua_checkstack(co, count)) {
        lua_pushliteral(L, "too many arguments to resume");
        return -1;
    }
    lua_State *before = *resumer(co);
    int results, status;
    lua_xmove(L, co, count);
    *resumer(co) = L;
    status = lua_resume(co, L, count, &results);
    if (status == LUA_YIELD && results == 1 && hf_lua_is_mark(co)) {
        lua_pop(co, 1);
        yield_mark(L, then);
    }
    /* A coroutine that is running or normal cannot be resumed, and has the same resumer as before. */
    *resumer(co) = lua_status(co) == LUA_OK && status != LUA_OK ? before : NULL;
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(co, L, 1);
        return -1;
    }
    if (!lua_checkstack(L, results + 1)) {
        lua_pop(co, results);
        lua_pushliteral(L, "too many results to resume");
        return -1;
    }
    lua_xmove(co, L, results);
    return results;
}

static int resume_again(lua_State *L, int status, lua_KContext unused);

static int resume_with(lua_State *L, int count) {
    int results = run(L, lua_tothread(L, 1), count, resume_again);
    lua_pushboolean(L, results >= 0);
    if (results < 0) results = 1;
    lua_insert(L, -(results + 1));
    return results + 1;
}

static int resume_again(lua_State *L, int status, lua_KContext unused) {
    return resume_with(L, 0);
}

static int co_resume(lua_State *L) {
    thread_argument(L);
    return resume_with(L, lua_gettop(L) - 1);
}

static int wrap_again(lua_State *L, int status, lua_KContext unused);

static int wrap_with(lua_State *L, int count) {
    lua_State *co = lua_tothread(L, lua_upvalueindex(1));
    int results = run(L, co, count, wrap_again);
    if (results >= 0) return results;
    if (lua_status(co) != LUA_OK && lua_status(co) != LUA_YIELD) { /* it died of this error: close its variables */
        lua_pop(L, 1);
        lua_closethread(co, L);
        lua_xmove(co, L, 1);
    }
    if (lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int wrap_again(lua_State *L, int status, lua_KContext unused) {
    return wrap_with(L, 0);
}

static int wrapped(lua_State *L) { return wrap_with(L, lua_gettop(L)); }

static int co_create(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    return 1;
}

static int co_wrap(lua_State *L) {
    co_create(L);
    lua_pushcclosure(L, wrapped, 1);
    return 1;
}

/* ---- the rest ----------------------------------------------------------------------------------------------------------------------- */

static int co_yield(lua_State *L) {
    if (hf_lua_is_main(L)) return luaL_error(L, "attempt to yield from outside a coroutine");
    return lua_yield(L, lua_gettop(L));
}

static int co_status(lua_State *L) {
    lua_pushstring(L, state_names[state_of(L, thread_argument(L))]);
    return 1;
}

static int co_isyieldable(lua_State *L) {
    lua_State *co = lua_isnone(L, 1) ? L : thread_argument(L);
    lua_pushboolean(L, !hf_lua_is_main(co) && lua_isyieldable(co));
    return 1;
}

static int co_running(lua_State *L) {
    lua_pushthread(L);
    lua_pushboolean(L, hf_lua_is_main(L));
    return 2;
}

static int co_close(lua_State *L) {
    lua_State *co = thread_argument(L);
    enum state state = state_of(L, co);
    if (state == RUNNING || state == NORMAL) return luaL_error(L, "cannot close a %s coroutine", state_names[state]);
    if (lua_closethread(co, L) == LUA_OK) {
        lua_pushboolean(L, 1);
        return 1;
    }
    lua_pushboolean(L, 0);
    lua_xmove(co, L, 1);
    return 2;
}

int hf_lua_open_coroutine(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"close", co_close},   {"create", co_create}, {"isyieldable", co_isyieldable}, {"resume", co_resume}, {"running", co_running},
        {"status", co_status}, {"wrap", co_wrap},     {"yield", co_yield},             {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}

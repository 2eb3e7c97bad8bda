/* table.sort with a function of the script's, which may wait.
 *
 * A C function that calls Lua and may be interrupted there starts again in its continuation. So the whole state of the sort is in
 * a userdata, and `sort_on` can be entered at any of its comparisons: the context of the call says at which.
 * Without a function nothing can wait, and Lua's own sort does it.
 */
#include <limits.h>

#include "guest.h"

#include "lualib.h"

static lua_CFunction lua_sort;

enum { TABLE = 1, LESS, STATE, PIVOT, ONE, OTHER }; /* places on the stack */
enum { UNBALANCED = 128, LARGE = 100 };

struct sort {
    lua_Integer low, high; /* the range in work */
    lua_Integer i, j;
    uint32_t stir; /* not zero: pivots are picked from here, since the middle was a bad choice */
    int later;     /* ranges to do later; the smaller part is done first, so there are few */
    struct {
        lua_Integer low, high;
    } ranges[32];
};

static void get_two(lua_State *L, lua_Integer one, lua_Integer other) {
    lua_settop(L, PIVOT);
    lua_geti(L, TABLE, one);
    lua_geti(L, TABLE, other);
}

static void swap(lua_State *L, lua_Integer one, lua_Integer other) { /* ONE is the value at `one`, OTHER that at `other` */
    lua_settop(L, OTHER);
    lua_seti(L, TABLE, one);
    lua_seti(L, TABLE, other);
}

static lua_Integer middle(struct sort *s) {
    lua_Integer size = s->high - s->low;
    if (size <= LARGE || !s->stir) return s->low + size / 2;
    s->stir = s->stir * 1664525u + 1013904223u;
    return s->low + size / 4 + (lua_Integer)(s->stir >> 8) % (size / 2);
}

/* The pivot has come to rest at s->i: goes on with the smaller side and keeps the larger one for later. */
static void split(struct sort *s) {
    lua_Integer left = s->i - s->low, right = s->high - s->i, small = left < right ? left : right;
    if ((s->high - s->low) / UNBALANCED > small) s->stir |= 1;
    int at = s->later++;
    if (left < right) {
        s->ranges[at].low = s->i + 1;
        s->ranges[at].high = s->high;
        s->high = s->i - 1;
    } else {
        s->ranges[at].low = s->low;
        s->ranges[at].high = s->i - 1;
        s->low = s->i + 1;
    }
}

static int next_range(struct sort *s) {
    while (s->low >= s->high) {
        if (!s->later) return 0;
        s->later--;
        s->low = s->ranges[s->later].low;
        s->high = s->ranges[s->later].high;
    }
    return 1;
}

static int invalid_order(lua_State *L) { return luaL_error(L, "invalid order function for sorting"); }

/* Asks the script's function whether the value in slot `a` is less than that in `b`; `point` is this place's name. */
#define COMPARE(point, a, b)                    \
    lua_pushvalue(L, LESS);                     \
    lua_pushvalue(L, a);                        \
    lua_pushvalue(L, b);                        \
    lua_callk(L, 2, 1, point, sort_on);         \
    /* fall through */                          \
    case point:                                 \
    less = lua_toboolean(L, -1);                \
    lua_pop(L, 1)

static int sort_on(lua_State *L, int status, lua_KContext point) {
    struct sort *s = lua_touserdata(L, STATE);
    int less;
    switch (point) {
        case 0:
            while (next_range(s)) {
                get_two(L, s->low, s->high);
                COMPARE(1, OTHER, ONE);
                if (less) swap(L, s->low, s->high);
                if (s->high - s->low == 1) {
                    s->low = s->high;
                    continue;
                }
                s->i = middle(s);
                get_two(L, s->low, s->i);
                COMPARE(2, OTHER, ONE);
                if (less)
                    swap(L, s->low, s->i);
                else {
                    get_two(L, s->i, s->high);
                    COMPARE(3, OTHER, ONE);
                    if (less) swap(L, s->i, s->high);
                }
                if (s->high - s->low == 2) {
                    s->low = s->high;
                    continue;
                }
                /* Now low <= middle <= high. The middle one is the pivot; it waits beside the end. */
                get_two(L, s->i, s->high - 1);
                lua_copy(L, ONE, PIVOT);
                swap(L, s->i, s->high - 1);
                s->i = s->low;
                s->j = s->high - 1;
                for (;;) {
                    do {
                        lua_settop(L, PIVOT);
                        lua_geti(L, TABLE, ++s->i);
                        COMPARE(4, ONE, PIVOT);
                        if (less && s->i == s->high - 1) return invalid_order(L); /* the pivot is less than itself */
                    } while (less);
                    do {
                        lua_settop(L, ONE);
                        lua_geti(L, TABLE, --s->j);
                        COMPARE(5, PIVOT, OTHER);
                        if (less && s->j < s->i) return invalid_order(L);
                    } while (less);
                    if (s->j < s->i) break;
                    swap(L, s->i, s->j);
                }
                get_two(L, s->i, s->high - 1);
                swap(L, s->i, s->high - 1);
                split(s);
            }
    }
    return 0;
}

static int has_method(lua_State *L, const char *name) {
    if (luaL_getmetafield(L, TABLE, name) == LUA_TNIL) return 0;
    lua_pop(L, 1);
    return 1;
}

static int sort(lua_State *L) {
    if (!lua_isfunction(L, LESS)) return lua_sort(L);
    if (!lua_istable(L, TABLE) && !(has_method(L, "__index") && has_method(L, "__newindex") && has_method(L, "__len")))
        luaL_checktype(L, TABLE, LUA_TTABLE);
    lua_Integer count = luaL_len(L, TABLE);
    if (count < 2) return 0;
    luaL_argcheck(L, count < INT_MAX, TABLE, "array too big");
    lua_settop(L, LESS);
    struct sort *s = lua_newuserdatauv(L, sizeof *s, 0);
    *s = (struct sort){.low = 1, .high = count};
    lua_pushnil(L);
    return sort_on(L, LUA_OK, 0);
}

void hf_lua_open_sort(lua_State *L) {
    lua_getglobal(L, LUA_TABLIBNAME);
    lua_getfield(L, -1, "sort");
    lua_sort = lua_tocfunction(L, -1);
    lua_pushcfunction(L, sort);
    lua_setfield(L, -3, "sort");
    lua_pop(L, 2);
}

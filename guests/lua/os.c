/* The part of os that needs no system: time, clock and date. The clock and the zone are the host's (guests/common/clock.c). */
#include <limits.h>
#include <string.h>
#include <time.h>

#include "guest.h"

static const struct {
    const char *name;
    size_t at;  /* in struct tm */
    int offset; /* Lua counts some of them from elsewhere */
    int missing; /* what it is if it is not given; -1: it must be */
} fields[] = {
    {"year", offsetof(struct tm, tm_year), 1900, -1}, {"month", offsetof(struct tm, tm_mon), 1, -1},
    {"day", offsetof(struct tm, tm_mday), 0, -1},     {"hour", offsetof(struct tm, tm_hour), 0, 12},
    {"min", offsetof(struct tm, tm_min), 0, 0},       {"sec", offsetof(struct tm, tm_sec), 0, 0},
    {"yday", offsetof(struct tm, tm_yday), 1, 0},     {"wday", offsetof(struct tm, tm_wday), 1, 0},
};
enum { GIVEN = 6, ALL = 8 }; /* day of the year and of the week are only told */

static int *field(struct tm *tm, int i) { return (int *)((char *)tm + fields[i].at); }

static void set_fields(lua_State *L, struct tm *tm) { /* of the table at the top */
    for (int i = 0; i < ALL; i++) {
        lua_pushinteger(L, (lua_Integer)*field(tm, i) + fields[i].offset);
        lua_setfield(L, -2, fields[i].name);
    }
    if (tm->tm_isdst < 0) return;
    lua_pushboolean(L, tm->tm_isdst);
    lua_setfield(L, -2, "isdst");
}

static int get_field(lua_State *L, int i) {
    int is_integer, type = lua_getfield(L, -1, fields[i].name);
    lua_Integer value = lua_tointegerx(L, -1, &is_integer);
    lua_pop(L, 1);
    if (!is_integer && type != LUA_TNIL) return luaL_error(L, "field '%s' is not an integer", fields[i].name);
    if (!is_integer && fields[i].missing < 0) return luaL_error(L, "field '%s' missing in date table", fields[i].name);
    if (!is_integer) return fields[i].missing;
    if (value < (lua_Integer)INT_MIN + fields[i].offset || value > (lua_Integer)INT_MAX + fields[i].offset)
        return luaL_error(L, "field '%s' is out-of-bound", fields[i].name);
    return (int)(value - fields[i].offset);
}

static int os_time(lua_State *L) {
    time_t at;
    if (lua_isnoneornil(L, 1))
        at = time(NULL);
    else {
        struct tm tm = {0};
        luaL_checktype(L, 1, LUA_TTABLE);
        lua_settop(L, 1);
        for (int i = 0; i < GIVEN; i++) *field(&tm, i) = get_field(L, i);
        tm.tm_isdst = lua_getfield(L, 1, "isdst") == LUA_TNIL ? -1 : lua_toboolean(L, -1);
        lua_pop(L, 1);
        at = mktime(&tm);
        if (at == (time_t)-1) return luaL_error(L, "time result cannot be represented in this installation");
        set_fields(L, &tm);
    }
    lua_pushinteger(L, (lua_Integer)at);
    return 1;
}

static int os_clock(lua_State *L) {
    lua_pushnumber(L, (lua_Number)clock() / CLOCKS_PER_SEC);
    return 1;
}

/* Copies the conversion at `at`, which is behind a percent sign, if it is one that C knows. Returns where it ends. */
static const char *conversion(lua_State *L, const char *at, const char *end, char *out) {
    static const char plain[] = "aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyYzZ%", of_E[] = "cCxXyY", of_O[] = "deHImMSuUVwWy";
    const char *modified = at < end ? *at == 'E' ? of_E : *at == 'O' ? of_O : NULL : NULL, *start = at;
    if (modified) *out++ = *at++;
    if (at < end && *at && strchr(modified ? modified : plain, *at)) {
        *out++ = *at++;
        *out = 0;
        return at;
    }
    luaL_argerror(L, 1, lua_pushfstring(L, "invalid conversion specifier '%%%s'", start));
    return end;
}

static int os_date(lua_State *L) {
    enum { LONGEST = 250 }; /* of one conversion */
    size_t length;
    const char *format = luaL_optlstring(L, 1, "%c", &length), *end = format + length;
    time_t at = lua_isnoneornil(L, 2) ? time(NULL) : (time_t)luaL_checkinteger(L, 2);
    struct tm tm;
    int utc = *format == '!';
    format += utc;
    if (!(utc ? gmtime_r(&at, &tm) : localtime_r(&at, &tm)))
        return luaL_error(L, "date result cannot be represented in this installation");
    if (!strcmp(format, "*t")) {
        lua_createtable(L, 0, ALL + 1);
        set_fields(L, &tm);
        return 1;
    }
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    while (format < end) {
        char one[4] = "%";
        if (*format != '%') {
            luaL_addchar(&text, *format++);
            continue;
        }
        char *room = luaL_prepbuffsize(&text, LONGEST);
        format = conversion(L, format + 1, end, one + 1);
        luaL_addsize(&text, strftime(room, LONGEST, one, &tm));
    }
    luaL_pushresult(&text);
    return 1;
}

int hf_lua_open_os(lua_State *L) {
    static const luaL_Reg functions[] = {{"clock", os_clock}, {"date", os_date}, {"time", os_time}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}

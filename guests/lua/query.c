/* What the execution waits for: a group of queries, or the clock.
 *
 * All queries of a group are asked at once, so their ids follow each other. Answers may come one by one, in any order; the script
 * goes on when it has all of them.
 */
#include <string.h>

#include "guest.h"

enum { FEW = 32 };

static struct {
    enum { NOTHING, QUERIES, CLOCK } what;
    uint32_t first, count, open;
    double wake;
    int inside;            /* a null among the answers becomes alc.null, since a list cannot hold nil */
    char few[FEW], *state; /* for each query: 0 while it is open, then 'v' or 'e' */
} pause = {.state = pause.few};

static char answers; /* registry: a table of the answers, by position */

int hf_lua_waiting(void) { return pause.what != NOTHING; }

/* ---- asking ------------------------------------------------------------------------------------------------------------------- */

static void check(lua_State *L) {
    if (!hf_lua_can_wait(L))
        hf_lua_fail(L, "QUERY_NOT_ALLOWED_HERE",
                    "a query cannot wait here: a function that is not written in Lua is between it and the execution");
}

static void begin(uint32_t count, int inside) {
    pause.what = QUERIES;
    pause.first = hf_queries_asked() + 1;
    pause.count = pause.open = count;
    pause.inside = inside;
    pause.state = count <= FEW ? pause.few : hf_malloc(count);
    memset(pause.state, 0, count);
}

static void end(void) {
    if (pause.state != pause.few) hf_free(pause.state);
    pause.what = NOTHING;
    pause.state = pause.few;
}

static void emit(lua_State *L, const char *kind, size_t length) { /* the payload is at the top */
    hf_buffer record = {0};
    hf_put(&record, "[\"query\",", 9);
    hf_put_integer(&record, hf_next_query());
    hf_put_char(&record, ',');
    hf_put_string(&record, kind, length);
    hf_put_char(&record, ',');
    hf_lua_encode(&record, L);
    hf_put_char(&record, ']');
    hf_emit_query(&record);
}

/* Pushes answer `index`; it is not kept here, where it would stay in every image. */
static void take(lua_State *L, uint32_t index) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &answers);
    lua_rawgeti(L, -1, index + 1);
    lua_pushnil(L);
    lua_rawseti(L, -3, index + 1);
    lua_remove(L, -2);
}

static int query_answered(lua_State *L, int status, lua_KContext unused) {
    int failed = pause.state[0] == 'e';
    end();
    take(L, 0);
    return failed ? lua_error(L) : 1;
}

int hf_lua_query(lua_State *L, const char *kind, size_t length) {
    check(L);
    begin(1, 0);
    emit(L, kind, length);
    hf_lua_wait(L, query_answered);
}

static int batch_answered(lua_State *L, int status, lua_KContext unused) {
    uint32_t count = pause.count, failed = 0;
    while (failed < count && pause.state[failed] != 'e') failed++;
    end();
    lua_rawgetp(L, LUA_REGISTRYINDEX, &answers); /* the list is already there: give it away and begin a new one */
    lua_createtable(L, 1, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &answers);
    if (failed == count) return 1;
    lua_rawgeti(L, -1, failed + 1);
    return lua_error(L);
}

int hf_lua_query_batch(lua_State *L, uint32_t count) {
    check(L);
    begin(count, 1);
    for (uint32_t i = 0; i < count; i++) {
        size_t length;
        lua_rawgeti(L, -1, 2 * (lua_Integer)i + 1);
        lua_rawgeti(L, -2, 2 * (lua_Integer)i + 2);
        const char *kind = lua_tolstring(L, -2, &length);
        emit(L, kind, length);
        lua_pop(L, 2);
    }
    hf_lua_wait(L, batch_answered);
}

static int woken(lua_State *L, int status, lua_KContext unused) {
    pause.what = NOTHING;
    return 0;
}

int hf_lua_sleep(lua_State *L, double milliseconds) {
    check(L);
    pause.what = CLOCK;
    pause.open = pause.count = 0;
    pause.wake = hf_clock_now() + milliseconds;
    hf_lua_wait(L, woken);
}

void hf_lua_put_pending(hf_buffer *record) {
    hf_put_text(record, "[\"pending\",");
    if (pause.what == CLOCK && pause.wake == (double)(int64_t)pause.wake)
        hf_put_integer(record, (int64_t)pause.wake);
    else if (pause.what == CLOCK)
        hf_lua_put_float(record, pause.wake);
    else
        hf_put_text(record, "null");
    hf_put_text(record, ",[");
    for (uint32_t i = 0, some = 0; i < pause.count; i++) {
        if (pause.state[i]) continue;
        if (some++) hf_put_char(record, ',');
        hf_put_integer(record, (int64_t)pause.first + i);
    }
    hf_put_text(record, "]]");
}

/* ---- answers: a request is taken whole or not at all ------------------------------------------------------------------------------ */

static int refuse(const char *code, const char *message) {
    hf_refuse(code, message);
    return 0;
}

/* Pushes the answer's value on the host's thread, or refuses it. */
static int read_answer(const hf_part *part) {
    uint32_t id;
    if (part->length < 5) return refuse("BAD_ANSWER", "an answer is too short");
    memcpy(&id, part->data, 4);
    if (!id || id > hf_queries_asked()) return refuse("UNKNOWN_QUERY", "no such query was asked");
    if (pause.what != QUERIES || id - pause.first >= pause.count || pause.state[id - pause.first])
        return refuse("QUERY_NOT_OPEN", "the query is not open: it was answered before, or its execution has ended");
    char status = part->data[4];
    if ((status != 'v' && status != 'e') || !hf_lua_decode(hf_main, part->data + 5, part->length - 5, pause.inside))
        return refuse("BAD_ANSWER", "an answer is not JSON");
    if (status == 'e') hf_lua_adopt_failure(hf_main);
    return 1;
}

static uint32_t index_of(const hf_part *part) {
    uint32_t id;
    memcpy(&id, part->data, 4);
    return id - pause.first;
}

int hf_lua_answer(const hf_part *parts, uint32_t count) {
    if (pause.what == NOTHING) return refuse("NOT_PENDING", "no execution waits");
    int top = lua_gettop(hf_main);
    uint32_t taken = 0;
    lua_rawgetp(hf_main, LUA_REGISTRYINDEX, &answers);
    for (; taken < count && read_answer(&parts[taken]); taken++) {
        uint32_t index = index_of(&parts[taken]);
        lua_rawseti(hf_main, -2, index + 1);
        pause.state[index] = parts[taken].data[4];
        pause.open--;
    }
    int whole = taken == count;
    while (!whole && taken--) { /* one was refused, so those before it are open again */
        uint32_t index = index_of(&parts[taken]);
        lua_pushnil(hf_main);
        lua_rawseti(hf_main, -2, index + 1);
        pause.state[index] = 0;
        pause.open++;
    }
    lua_settop(hf_main, top);
    if (!whole) return 0;
    if (pause.what == CLOCK) return hf_clock_now() >= pause.wake ? 2 : 1;
    return pause.open ? 1 : 2;
}

void hf_lua_cancel(void) {
    lua_rawgetp(hf_main, LUA_REGISTRYINDEX, &answers);
    for (uint32_t i = 0; i < pause.count; i++) {
        if (pause.state[i]) { /* the answer to a part of a group */
            lua_pushnil(hf_main);
            lua_rawseti(hf_main, -2, i + 1);
            continue;
        }
        hf_buffer record = {0};
        hf_put_text(&record, "[\"cancelled\",");
        hf_put_integer(&record, (int64_t)pause.first + i);
        hf_put_char(&record, ']');
        hf_emit(&record);
    }
    lua_pop(hf_main, 1);
    end();
}

void hf_lua_open_query(lua_State *L) {
    lua_createtable(L, 1, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &answers);
}

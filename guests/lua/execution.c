/* The operations of a step, and how an execution runs. See guest.h for the whole picture. */
#include "guest.h"

#include <string.h>

enum { MOST_ARGUMENTS = 250 };

lua_State *hf_main, *hf_root;

static int failed;       /* how the execution ended */
static hf_buffer origin; /* where its error was raised */
static uint32_t executions;

uint32_t hf_lua_executions(void) { return executions; }

/* ---- an execution, on hf_root --------------------------------------------------------------------------------------------------- */

/* Whether a line of a traceback is of a function that has no name, in the prelude or called by it: such names are not kept. */
static int is_nameless(const char *line, size_t length) {
    static const char *const forms[] = {
        "\t[C]: in upvalue '?'",
        "\t[alc]: in upvalue '?'",
        "\t[alc]: in local '?'",
        "\t[alc]: in function <",
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (length >= strlen(forms[i]) && !memcmp(line, forms[i], strlen(forms[i]))) return 1;
    return 0;
}

/* The message handler. The error stays as it is, since __close methods see it next; only where it happened is noted. */
static int note_origin(lua_State *L) {
    static const char below[] = "\n\t[C]: in ?"; /* the last line is our own `execution` */
    size_t length;
    luaL_traceback(L, L, NULL, 1);
    const char *text = lua_tolstring(L, -1, &length);
    size_t tail = sizeof below - 1;
    if (length >= tail && !memcmp(text + length - tail, below, tail)) length -= tail;
    hf_buffer_free(&origin);
    for (const char *end = text + length; text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t line = (size_t)((stop ? stop : end) - text);
        if (!is_nameless(text, line)) {
            if (origin.length) hf_put_char(&origin, '\n');
            hf_put(&origin, text, line);
        }
        text += line + 1;
    }
    lua_pop(L, 1);
    return 1;
}

static int execution_ended(lua_State *L, int status, lua_KContext unused) {
    failed = status != LUA_OK && status != LUA_YIELD;
    return 1;
}

static int execution(lua_State *L) { /* function, arguments ... -> its first result or its error */
    lua_pushcfunction(L, note_origin);
    lua_insert(L, 1);
    int status = lua_pcallk(L, lua_gettop(L) - 2, 1, 1, 0, execution_ended);
    return execution_ended(L, status, 0);
}

/* ---- outcomes -------------------------------------------------------------------------------------------------------------------- */

static void value_outcome(lua_State *L) { /* of the value at the top */
    hf_buffer record = {0};
    const char *type = luaL_typename(L, -1);
    int no_json = lua_isfunction(L, -1) || lua_isthread(L, -1) ||
                  (lua_isuserdata(L, -1) && lua_touserdata(L, -1) != &hf_lua_null);
    hf_put_text(&record, "[\"value\",\"");
    hf_put_text(&record, type);
    hf_put_text(&record, "\",");
    hf_lua_preview(&record, L);
    if (!no_json) {
        hf_put_char(&record, ',');
        hf_lua_encode(&record, L);
    }
    hf_put_char(&record, ']');
    hf_outcome(&record);
}

static void error_outcome(lua_State *L, const char *name) {
    hf_buffer record = {0};
    hf_put_text(&record, "[\"error\",");
    hf_lua_put_failure(&record, L, name, &origin);
    hf_put_char(&record, ']');
    hf_outcome(&record);
    hf_buffer_free(&origin);
}

static void pending_outcome(void) {
    hf_buffer record = {0};
    hf_lua_put_pending(&record);
    hf_outcome(&record);
}

/* Runs hf_root, whose stack has what it needs, until the execution waits or ends. */
static void go_on(int count) {
    int results, status = lua_resume(hf_root, hf_main, count, &results);
    if (status == LUA_YIELD) {
        lua_pop(hf_root, results);
        hf_execution_waits();
        hf_lua_settle();
        pending_outcome();
        return;
    }
    lua_xmove(hf_root, hf_main, 1);
    if (status != LUA_OK) {
        failed = 1;
        lua_closethread(hf_root, hf_main);
    }
    lua_settop(hf_root, 0); /* ready for the next one */
    hf_lua_settle();
    if (failed)
        error_outcome(hf_main, "error");
    else
        value_outcome(hf_main);
}

/* ---- source --------------------------------------------------------------------------------------------------------------------- */

struct source {
    hf_part pieces[2];
    int next;
};

static const char *read_source(lua_State *L, void *at, size_t *length) {
    struct source *source = at;
    while (source->next < 2 && !source->pieces[source->next].length) source->next++;
    if (source->next == 2) return NULL;
    *length = source->pieces[source->next].length;
    return source->pieces[source->next++].data;
}

static int load(const char *before, const hf_part *part, char kind, const hf_part *name) {
    struct source source = {{{before, (uint32_t)strlen(before)}, *part}, 0};
    char kind_text[2] = {kind, 0};
    lua_pushstring(hf_main, kind_text);
    lua_pushlstring(hf_main, name->data, name->length);
    lua_concat(hf_main, 2);
    int status = lua_load(hf_main, read_source, &source, lua_tostring(hf_main, -1), "t");
    lua_remove(hf_main, -2);
    return status;
}

/* A snippet is an expression if it can be one, as in Lua's own prompt. */
static int load_snippet(const hf_part *source, const hf_part *name) {
    if (load("return ", source, '=', name) == LUA_OK) return LUA_OK;
    lua_pop(hf_main, 1);
    return load("", source, '=', name);
}

/* A file may begin with a byte order mark, and with a line for a shell. The line's end stays, so that lines count right. */
hf_part hf_lua_code_of(hf_part file) {
    if (file.length >= 3 && !memcmp(file.data, "\xEF\xBB\xBF", 3)) file.data += 3, file.length -= 3;
    if (file.length && *file.data == '#')
        while (file.length && *file.data != '\n') file.data++, file.length--;
    return file;
}

static int load_file(const hf_part *source, const hf_part *name) {
    hf_part code = hf_lua_code_of(*source);
    return load("", &code, '@', name);
}

/* ---- operations -------------------------------------------------------------------------------------------------------------------- */

static void begin(void) {
    hf_execution_begins();
    executions++;
    hf_buffer_free(&origin);
    failed = 0;
}

/* Starts an execution of the function and `count` arguments at the top of the host's thread. */
static void start(int count) {
    hf_lua_reserve(hf_root, count + 2);
    lua_pushcfunction(hf_root, execution);
    lua_xmove(hf_main, hf_root, count + 1);
    go_on(count + 1);
}

static void evaluate(const hf_part *parts) {
    begin();
    if (load_snippet(&parts[0], &parts[1]) == LUA_OK)
        start(0);
    else
        error_outcome(hf_main, "SyntaxError");
}

static int push_decoded(const hf_part *part) {
    if (!part->length) {
        lua_pushnil(hf_main);
        return 1;
    }
    return hf_lua_decode(hf_main, part->data, part->length, 0);
}

static void set_global(const char *name, int value) {
    lua_rawgeti(hf_main, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushstring(hf_main, name);
    lua_pushvalue(hf_main, value);
    lua_rawset(hf_main, -3);
    lua_pop(hf_main, 1);
}

/* A file is given its arguments, and if it has an environment both by short names too. */
static void run_file(const hf_part *parts, uint32_t count) {
    enum { ARGUMENTS = 1, ENVIRONMENT };
    hf_part none = {0};
    if (!push_decoded(count > 2 ? &parts[2] : &none) || !push_decoded(count > 3 ? &parts[3] : &none)) {
        hf_refuse("BAD_REQUEST", "the arguments or the environment are not JSON");
        return;
    }
    begin();
    set_global("__ARGS__", ARGUMENTS);
    if (count > 3) {
        set_global("args", ARGUMENTS);
        set_global("__ENV__", ENVIRONMENT);
        set_global("env", ENVIRONMENT);
    }
    lua_settop(hf_main, ARGUMENTS);
    if (load_file(&parts[0], &parts[1]) == LUA_OK) {
        lua_insert(hf_main, -2);
        start(1);
    } else
        error_outcome(hf_main, "SyntaxError");
}

static int named_ended(lua_State *L, int status, lua_KContext unused) {
    return lua_gettop(L);
}

/* name, arguments ... -> what the function of that name returns. A name with dots is found in tables. */
static int call_named(lua_State *L) {
    size_t length;
    const char *name = luaL_checklstring(L, 1, &length), *end = name + length;
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    for (const char *at = name;;) {
        const char *dot = memchr(at, '.', (size_t)(end - at)), *stop = dot ? dot : end;
        if (lua_isnil(L, -1)) break;
        lua_pushlstring(L, at, (size_t)(stop - at));
        lua_gettable(L, -2);
        lua_remove(L, -2);
        if (!dot) break;
        at = dot + 1;
    }
    int value = lua_gettop(L);
    if (!lua_isfunction(L, value) && luaL_getmetafield(L, value, "__call") == LUA_TNIL) {
        lua_pushfstring(L, "'%s' is not a function (a %s value)", name, luaL_typename(L, value));
        return hf_lua_fail(L, "NOT_A_FUNCTION", lua_tostring(L, -1));
    }
    lua_settop(L, value);
    lua_replace(L, 1);
    lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, named_ended);
    return lua_gettop(L);
}

static void call(const hf_part *parts) {
    if (!hf_lua_decode(hf_main, parts[1].data, parts[1].length, 0) || !lua_istable(hf_main, -1)) {
        hf_refuse("BAD_REQUEST", "the arguments are not a JSON array");
        return;
    }
    int list = lua_gettop(hf_main);
    lua_Integer count = (lua_Integer)lua_rawlen(hf_main, list);
    if (count > MOST_ARGUMENTS) {
        hf_refuse("BAD_REQUEST", "too many arguments");
        return;
    }
    begin();
    hf_lua_reserve(hf_main, (int)count + 3);
    lua_pushcfunction(hf_main, call_named);
    lua_pushlstring(hf_main, parts[0].data, parts[0].length);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(hf_main, list, i);
        if (lua_touserdata(hf_main, -1) == &hf_lua_null) {
            lua_pop(hf_main, 1);
            lua_pushnil(hf_main);
        }
    }
    start((int)count + 1);
}

static void resume(const hf_part *parts, uint32_t count) {
    switch (hf_lua_answer(parts, count)) {
        case 1: pending_outcome(); break;
        case 2: go_on(0); break;
        default: break; /* refused */
    }
}

static void seal(void) {
    hf_lua_collect(); /* a template holds no garbage */
    lua_pushnil(hf_main);
    value_outcome(hf_main);
}

/* Nothing is allocated in Lua, so not even finalizers run. */
static void abandon(void) {
    if (!hf_lua_waiting()) {
        hf_refuse("NOT_PENDING", "no execution waits");
        return;
    }
    hf_lua_drop_waiting();
    hf_lua_loading_dropped();
    hf_lua_cancel();
    lua_pushnil(hf_main);
    value_outcome(hf_main);
}

void hf_language_step(enum hf_op op, const hf_part *parts, uint32_t count) {
    int starts = op == HF_EVALUATE || op == HF_RUN_FILE || op == HF_CALL;
    int any_time = op == HF_RESUME || op == HF_ABANDON || op == HF_GLOBALS;
    if (!any_time && hf_lua_waiting())
        hf_refuse("EXECUTION_PENDING", "an execution waits for answers");
    else if (op < HF_EVALUATE || op > HF_GLOBALS || (starts && count < 2))
        hf_refuse("BAD_REQUEST", "unknown operation, or parts are missing");
    else
        switch (op) {
            case HF_EVALUATE: evaluate(parts); break;
            case HF_RUN_FILE: run_file(parts, count); break;
            case HF_RESUME: resume(parts, count); break;
            case HF_CALL: call(parts); break;
            case HF_SEAL: seal(); break;
            case HF_ABANDON: abandon(); break;
            case HF_GLOBALS: hf_lua_globals(); break;
            case HF_CONFIGURE: break; /* never comes here */
        }
    lua_settop(hf_main, 0);
}

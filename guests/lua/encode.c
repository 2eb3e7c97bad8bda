/* Values to JSON, with tags for what JSON has not: {"$": tag, "v": ...}.
 *
 * Tables are read as they are in memory: no metamethod runs, nothing is allocated in Lua, and so no finalizer can change a
 * table while it is written. Keys are sorted, so equal tables give equal text.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "table.h"

enum { OUTPUT_MAX = 64 << 20, FEW = 8 };

struct level { /* on the way from the top value to the present one */
    const Table *table;
    const TValue *key; /* of the child that is being written; NULL: `index` */
    lua_Integer index;
};

struct writer {
    hf_buffer *out;
    uint32_t start;
    struct level levels[HF_DEPTH_MAX];
};

static void write(struct writer *w, const TValue *value, unsigned depth);

/* ---- plain values ------------------------------------------------------------------------------------------------------------- */

void hf_lua_put_float(hf_buffer *out, double number) {
    char text[40];
    if (number == (double)(int64_t)number && number > -1e15 && number < 1e15) {
        hf_put_integer(out, (int64_t)number);
        hf_put_text(out, ".0");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    hf_put_text(out, text);
    if (!strpbrk(text, ".e")) hf_put_text(out, ".0");
}

static void tag(hf_buffer *out, const char *name) {
    hf_put_text(out, "{\"$\":\"");
    hf_put_text(out, name);
    hf_put_text(out, "\",\"v\":");
}

static void put_number(hf_buffer *out, double number) {
    const char *special = isnan(number)                      ? "\"NaN\"}"
                          : isinf(number)                    ? number > 0 ? "\"Infinity\"}" : "\"-Infinity\"}"
                          : number == 0.0 && signbit(number) ? "\"-0\"}"
                                                             : NULL;
    if (!special) {
        hf_lua_put_float(out, number);
        return;
    }
    tag(out, "number");
    hf_put_text(out, special);
}

static void put_text(hf_buffer *out, const char *text, size_t length) {
    if (hf_is_utf8(text, length)) {
        hf_put_string(out, text, length);
        return;
    }
    tag(out, "bytes");
    hf_put_char(out, '"');
    hf_put_base64(out, text, length);
    hf_put_text(out, "\"}");
}

static void put_opaque(hf_buffer *out, const TValue *value) {
    char preview[32];
    const char *type = hf_lua_type(value);
    hf_put_text(out, "{\"$\":\"opaque\",\"type\":\"");
    hf_put_text(out, type);
    hf_put_text(out, "\",\"v\":\"");
    snprintf(preview, sizeof preview, "%s: %p", type, hf_lua_address(value));
    hf_put_text(out, preview);
    hf_put_text(out, "\"}");
}

/* ---- tables ---------------------------------------------------------------------------------------------------------------------- */

/* The path of a table that contains itself: $.like.this[0] */
static void put_circular(struct writer *w, unsigned depth) {
    hf_buffer path = {0};
    hf_put_char(&path, '$');
    for (unsigned i = 0; i < depth; i++) {
        const struct level *level = &w->levels[i];
        if (level->key && hf_lua_is_name(level->key)) {
            hf_put_char(&path, '.');
            hf_put(&path, hf_text(level->key), hf_length(level->key));
            continue;
        }
        hf_put_char(&path, '[');
        if (level->key)
            hf_put_string(&path, hf_text(level->key), hf_length(level->key));
        else
            hf_put_integer(&path, level->index);
        hf_put_char(&path, ']');
    }
    tag(w->out, "circular");
    hf_put_string(w->out, path.data, path.length);
    hf_put_char(w->out, '}');
    hf_buffer_free(&path);
}

static void write_array(struct writer *w, Table *table, lua_Unsigned count, unsigned depth) {
    struct level *level = &w->levels[depth];
    level->key = NULL;
    hf_put_char(w->out, '[');
    for (lua_Unsigned i = 0; i < count; i++) {
        if (i) hf_put_char(w->out, ',');
        level->index = (lua_Integer)i;
        write(w, luaH_getint(table, (lua_Integer)i + 1), depth + 1);
    }
    hf_put_char(w->out, ']');
}

static void write_object(struct writer *w, const hf_entry *entries, size_t count, unsigned depth) {
    struct level *level = &w->levels[depth];
    hf_put_char(w->out, '{');
    for (size_t i = 0; i < count; i++) {
        if (i) hf_put_char(w->out, ',');
        level->key = &entries[i].key;
        hf_put_string(w->out, hf_text(level->key), hf_length(level->key));
        hf_put_char(w->out, ':');
        write(w, entries[i].value, depth + 1);
    }
    hf_put_char(w->out, '}');
}

static void write_map(struct writer *w, const hf_entry *entries, size_t count, unsigned depth) {
    struct level *level = &w->levels[depth];
    level->key = NULL;
    tag(w->out, "map");
    hf_put_char(w->out, '[');
    for (size_t i = 0; i < count; i++) {
        hf_put_text(w->out, i ? ",[" : "[");
        level->index = (lua_Integer)i;
        write(w, &entries[i].key, depth + 1);
        hf_put_char(w->out, ',');
        write(w, entries[i].value, depth + 1);
        hf_put_char(w->out, ']');
    }
    hf_put_text(w->out, "]}");
}

static void write_entries(struct writer *w, Table *table, const hf_shape *shape, unsigned depth) {
    hf_entry few[FEW], *entries = shape->count <= FEW ? few : hf_malloc(shape->count * sizeof *entries);
    hf_lua_entries(table, entries, shape->count);
    if (!shape->names)
        write_map(w, entries, shape->count, depth);
    else if (!shape->dollar)
        write_object(w, entries, shape->count, depth);
    else {
        tag(w->out, "object");
        write_object(w, entries, shape->count, depth);
        hf_put_char(w->out, '}');
    }
    if (entries != few) hf_free(entries);
}

static void write_table(struct writer *w, const TValue *value, unsigned depth) {
    Table *table = hvalue(value);
    for (unsigned i = 0; i < depth; i++)
        if (w->levels[i].table == table) {
            put_circular(w, i);
            return;
        }
    if (depth >= HF_DEPTH_MAX) {
        put_opaque(w->out, value);
        return;
    }
    w->levels[depth].table = table;
    hf_shape shape = hf_lua_shape(table);
    if (shape.sequence)
        write_array(w, table, shape.length, depth);
    else if (!shape.count)
        hf_put_text(w->out, "{}");
    else
        write_entries(w, table, &shape, depth);
}

static void write(struct writer *w, const TValue *value, unsigned depth) {
    uint32_t length = w->out->length - w->start;
    if (length > OUTPUT_MAX) hf_breach(HF_OUTPUT, OUTPUT_MAX, length); /* shared tables may repeat without end */
    switch (ttypetag(value)) {
        case LUA_VFALSE: hf_put_text(w->out, "false"); break;
        case LUA_VTRUE: hf_put_text(w->out, "true"); break;
        case LUA_VNUMINT: hf_put_integer(w->out, ivalue(value)); break;
        case LUA_VNUMFLT: put_number(w->out, fltvalue(value)); break;
        case LUA_VSHRSTR:
        case LUA_VLNGSTR: put_text(w->out, hf_text(value), hf_length(value)); break;
        case LUA_VTABLE: write_table(w, value, depth); break;
        default:
            if (ttisnil(value) || (ttislightuserdata(value) && pvalue(value) == &hf_lua_null))
                hf_put_text(w->out, "null");
            else
                put_opaque(w->out, value);
    }
}

void hf_lua_encode(hf_buffer *out, lua_State *L) {
    struct writer w;
    w.out = out;
    w.start = out->length;
    write(&w, hf_lua_top(L), 0);
}

/* See table.h. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "lgc.h"

char hf_lua_null;

static const void *array_mark; /* the metatable of tables that are arrays in JSON even when they are empty */
static char array_key;         /* registry: the same */

/* ---- the mark of arrays ------------------------------------------------------------------------------------------------------- */

void hf_lua_open_values(lua_State *L) {
    lua_newtable(L);
    array_mark = lua_topointer(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &array_key);
}

int hf_lua_mark_array(lua_State *L, int index) {
    if (lua_getmetatable(L, index)) {
        int marked = lua_topointer(L, -1) == array_mark;
        lua_pop(L, 1);
        return marked;
    }
    index = lua_absindex(L, index);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key);
    lua_setmetatable(L, index);
    return 1;
}

/* ---- shape --------------------------------------------------------------------------------------------------------------------- */

static void count_key(hf_shape *shape, const TValue *key) {
    shape->count++;
    if (ttisinteger(key) && ivalue(key) >= 1) {
        if ((lua_Unsigned)ivalue(key) > shape->length) shape->length = (lua_Unsigned)ivalue(key);
    } else
        shape->sequence = 0;
    if (!ttisstring(key) || !hf_is_utf8(hf_text(key), hf_length(key)))
        shape->names = 0;
    else if (hf_length(key) == 1 && *hf_text(key) == '$')
        shape->dollar = 1;
}

hf_shape hf_lua_shape(Table *table) {
    hf_shape shape = {.sequence = 1, .names = 1};
    unsigned in_array = luaH_realasize(table);
    for (unsigned i = 0; i < in_array; i++)
        if (!isempty(&table->array[i])) {
            shape.count++;
            shape.length = i + 1;
            shape.names = 0;
        }
    for (int i = 0; i < sizenode(table); i++) {
        Node *node = gnode(table, i);
        TValue key;
        if (isempty(gval(node))) continue;
        getnodekey(hf_main, &key, node);
        count_key(&shape, &key);
    }
    int marked = table->metatable && table->metatable == array_mark;
    if (marked) /* may have holes, but not so many that a list of them would be absurd */
        shape.sequence = shape.sequence && shape.length <= 2 * (lua_Unsigned)shape.count + 8;
    else
        shape.sequence = shape.sequence && shape.count && shape.length == shape.count;
    return shape;
}

/* ---- entries ---------------------------------------------------------------------------------------------------------------------- */

static int rank(const TValue *key) { return ttisnumber(key) ? 0 : ttisstring(key) ? 1 : ttisboolean(key) ? 2 : 3; }

static int compare(const void *left, const void *right) {
    const hf_entry *one = left, *other = right;
    const TValue *a = &one->key, *b = &other->key;
    int ranks = rank(a) - rank(b);
    if (ranks) return ranks;
    switch (rank(a)) {
        case 0: {
            if (ttisinteger(a) && ttisinteger(b)) return (ivalue(a) > ivalue(b)) - (ivalue(a) < ivalue(b));
            double x = nvalue(a), y = nvalue(b);
            return x != y ? (x > y) - (x < y) : ttisinteger(a) - ttisinteger(b);
        }
        case 1: {
            size_t x = hf_length(a), y = hf_length(b);
            int bytes = memcmp(hf_text(a), hf_text(b), x < y ? x : y);
            return bytes ? bytes : (x > y) - (x < y);
        }
        case 2: return ttistrue(a) - ttistrue(b);
        default: {
            const char *x = hf_lua_address(a), *y = hf_lua_address(b); /* deterministic, as all of memory is */
            return (x > y) - (x < y);
        }
    }
}

void hf_lua_entries(Table *table, hf_entry *entries, size_t count) {
    size_t n = 0;
    unsigned in_array = luaH_realasize(table);
    for (unsigned i = 0; i < in_array; i++)
        if (!isempty(&table->array[i])) {
            setivalue(&entries[n].key, (lua_Integer)i + 1);
            entries[n++].value = &table->array[i];
        }
    for (int i = 0; i < sizenode(table); i++) {
        Node *node = gnode(table, i);
        if (isempty(gval(node))) continue;
        getnodekey(hf_main, &entries[n].key, node);
        entries[n++].value = gval(node);
    }
    if (count > 1) qsort(entries, count, sizeof *entries, compare);
}

/* ---- values ------------------------------------------------------------------------------------------------------------------------ */

int hf_lua_is_name(const TValue *value) {
    const char *text = hf_text(value);
    size_t length = hf_length(value);
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i && c >= '0' && c <= '9')) return 0;
    }
    return length > 0;
}

const TValue *hf_lua_top(lua_State *L) { return s2v(L->top.p - 1); }

const char *hf_lua_type(const TValue *value) { return lua_typename(NULL, ttype(value)); }

const void *hf_lua_address(const TValue *value) {
    switch (ttypetag(value)) {
        case LUA_VLCF: return (const void *)(uintptr_t)fvalue(value);
        case LUA_VUSERDATA: return getudatamem(uvalue(value));
        case LUA_VLIGHTUSERDATA: return pvalue(value);
        default: return iscollectable(value) ? (const void *)gcvalue(value) : NULL;
    }
}

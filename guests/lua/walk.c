/* What is hashed of a value. See digest.h for how. Nothing here runs code of the script, allocates in Lua, or changes a value.
 *
 * The entries of a table have no order that a script knows of, and where they lie depends on how they came there. So entries are
 * hashed apart and added up. Only tables need an order, since they are numbered: they are sorted by a hash of where they are found.
 */
#include <stdlib.h>

#include "walk.h"

#include "lgc.h"

enum tag { NIL = 1, FALSE, TRUE, INTEGER, FLOAT, STRING, TABLE, FUNCTION, NATIVE, OTHER };

/* ---- what is no table ------------------------------------------------------------------------------------------------------------- */

static void hash_constant(hf_digest *d, const TValue *value);

/* A function is its code: where it was written and what it has captured are not part of it. */
static void hash_code(hf_digest *d, const Proto *proto) {
    hf_digest_bytes(d, proto->code, (size_t)proto->sizecode * sizeof *proto->code);
    hf_digest_word(d, (uint64_t)proto->numparams << 1 | proto->is_vararg);
    for (int i = 0; i < proto->sizek && !hf_digest_spent(d); i++) hash_constant(d, &proto->k[i]);
    for (int i = 0; i < proto->sizep && !hf_digest_spent(d); i++) hash_code(d, proto->p[i]); /* nested as deep as the parser lets them */
}

static void hash_constant(hf_digest *d, const TValue *value) {
    switch (ttypetag(value)) {
        case LUA_VNIL: hf_digest_word(d, NIL); break;
        case LUA_VFALSE: hf_digest_word(d, FALSE); break;
        case LUA_VTRUE: hf_digest_word(d, TRUE); break;
        case LUA_VNUMINT:
            hf_digest_tag(d, INTEGER);
            hf_digest_word(d, (uint64_t)ivalue(value));
            break;
        case LUA_VNUMFLT:
            hf_digest_tag(d, FLOAT);
            hf_digest_number(d, fltvalue(value));
            break;
        case LUA_VSHRSTR:
        case LUA_VLNGSTR:
            hf_digest_tag(d, STRING);
            hf_digest_bytes(d, hf_text(value), hf_length(value));
            break;
        case LUA_VLCL:
            hf_digest_tag(d, FUNCTION);
            hash_code(d, clLvalue(value)->p);
            break;
        case LUA_VLCF: /* such a pointer is an index, the same in every instance of a guest */
            hf_digest_tag(d, NATIVE);
            hf_digest_word(d, (uintptr_t)fvalue(value));
            break;
        case LUA_VCCL:
            hf_digest_tag(d, NATIVE);
            hf_digest_word(d, (uintptr_t)clCvalue(value)->f);
            break;
        case LUA_VUSERDATA: /* the state of a generator of random numbers */
            hf_digest_tag(d, OTHER);
            hf_digest_bytes(d, getudatamem(uvalue(value)), uvalue(value)->len);
            break;
        default: hf_digest_word(d, (uint64_t)ttypetag(value) << 8 | OTHER); /* coroutines, and light userdata */
    }
}

static void hash_value(hf_digest *d, const TValue *value) {
    if (!ttistable(value)) {
        hash_constant(d, value);
        return;
    }
    hf_digest_tag(d, TABLE);
    hf_digest_object(d, hvalue(value));
}

/* ---- entries ---------------------------------------------------------------------------------------------------------------------- */

/* Calls `each` with all entries of a table. */
static void visit(Table *table, void (*each)(void *with, const TValue *key, const TValue *value), void *with) {
    TValue key;
    unsigned in_array = luaH_realasize(table);
    for (unsigned i = 0; i < in_array; i++) {
        if (isempty(&table->array[i])) continue;
        setivalue(&key, (lua_Integer)i + 1);
        each(with, &key, &table->array[i]);
    }
    for (int i = 0; i < sizenode(table); i++) {
        Node *node = gnode(table, i);
        if (isempty(gval(node))) continue;
        getnodekey(hf_main, &key, node);
        each(with, &key, gval(node));
    }
}

static void sketch(hf_digest *d, const TValue *value, unsigned depth);

struct sketching {
    hf_digest *digest;
    unsigned depth;
    uint64_t sum;
};

static void sketch_entry(void *with, const TValue *key, const TValue *value) {
    struct sketching *s = with;
    uint64_t before = s->digest->hash;
    s->digest->hash = 0;
    sketch(s->digest, key, s->depth + 1);
    sketch(s->digest, value, s->depth + 1);
    s->sum += s->digest->hash;
    s->digest->hash = before;
}

/* A value by what is near its top, without numbers of tables: tells keys apart that are tables. */
static void sketch(hf_digest *d, const TValue *value, unsigned depth) {
    enum { DEEPEST = 3, SIZE_MAX_ENTRIES = 64 };
    if (!ttistable(value)) {
        hash_constant(d, value);
        return;
    }
    Table *table = hvalue(value);
    struct sketching s = {d, depth, 0};
    hf_digest_word(d, TABLE);
    if (depth < DEEPEST && luaH_realasize(table) + (unsigned)sizenode(table) <= SIZE_MAX_ENTRIES && !hf_digest_spent(d))
        visit(table, sketch_entry, &s);
    hf_digest_word(d, s.sum);
}

/* ---- tables ----------------------------------------------------------------------------------------------------------------------- */

struct found { /* an entry whose key or value is a table */
    uint64_t order;
    TValue key;
    const TValue *value;
};

struct walking {
    hf_digest *digest;
    uint64_t sum;
    struct found *found;
    uint32_t count, capacity;
};

static uint64_t order_of(hf_digest *d, const TValue *key, const TValue *value) {
    uint64_t before = d->hash, order;
    d->hash = 0;
    sketch(d, key, 0);
    if (!ttisnumber(key) && !ttisstring(key) && !ttisboolean(key)) sketch(d, value, 0);
    order = d->hash;
    d->hash = before;
    return order;
}

static void keep(struct walking *w, const TValue *key, const TValue *value) {
    if (w->count == w->capacity) {
        w->capacity = w->capacity ? w->capacity * 2 : 16;
        w->found = hf_realloc(w->found, w->capacity * sizeof *w->found);
    }
    struct found *found = &w->found[w->count++];
    found->order = order_of(w->digest, key, value);
    found->key = *key;
    found->value = value;
}

static void walk_entry(void *with, const TValue *key, const TValue *value) {
    struct walking *w = with;
    if (hf_digest_spent(w->digest)) return;
    if (ttistable(key) || ttistable(value)) {
        keep(w, key, value);
        return;
    }
    uint64_t before = w->digest->hash;
    w->digest->hash = 0;
    if (ttisinteger(key)) { /* of a list: costs nothing, so that long ones are walked to their end */
        hf_digest_tag(w->digest, INTEGER);
        hf_digest_tag(w->digest, (uint64_t)ivalue(key));
    } else
        hash_constant(w->digest, key);
    hash_constant(w->digest, value);
    w->sum += w->digest->hash;
    w->digest->hash = before;
}

static int compare(const void *left, const void *right) {
    const struct found *a = left, *b = right;
    return (a->order > b->order) - (a->order < b->order);
}

static void walk_table(hf_digest *d, Table *table) {
    struct walking w = {.digest = d};
    visit(table, walk_entry, &w);
    hf_digest_word(d, w.sum);
    if (w.count > 1) qsort(w.found, w.count, sizeof *w.found, compare);
    for (uint32_t i = 0; i < w.count && !hf_digest_spent(d); i++) {
        hash_value(d, &w.found[i].key);
        hash_value(d, w.found[i].value);
    }
    hf_free(w.found);
}

void hf_lua_walk(hf_digest *d, const TValue *value) {
    const void *object;
    hash_value(d, value);
    while ((object = hf_digest_next(d))) walk_table(d, (Table *)object);
}

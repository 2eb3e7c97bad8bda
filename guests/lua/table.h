/* Tables as they are in memory, for what shows them: no metamethods, no allocation in Lua, a deterministic order. */
#ifndef HOLDFAST_LUA_TABLE_H
#define HOLDFAST_LUA_TABLE_H

#include "guest.h"

#include "lobject.h"
#include "lstate.h"
#include "ltable.h"

typedef struct {
    size_t count;   /* of all entries */
    int sequence;   /* shown as a list: the keys are 1 to `length`, or it is marked as an array */
    lua_Unsigned length;
    int names;      /* all keys are strings */
    int dollar;     /* and one of them is "$" */
} hf_shape;

typedef struct {
    TValue key;
    const TValue *value;
} hf_entry;

hf_shape hf_lua_shape(Table *table);
/* All entries: numbers in their order, then strings by their bytes, then the rest. */
void hf_lua_entries(Table *table, hf_entry *entries, size_t count);

#define hf_text(value) getstr(tsvalue(value))
#define hf_length(value) tsslen(tsvalue(value))
int hf_lua_is_name(const TValue *value); /* a string that could be the name of a variable */

/* A preview as a JSON string, by what lies in memory alone. */
void hf_lua_glance(hf_buffer *out, const TValue *value, size_t limit);

const TValue *hf_lua_top(lua_State *L);
const char *hf_lua_type(const TValue *value);
const void *hf_lua_address(const TValue *value);

#endif

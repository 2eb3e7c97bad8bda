/* The global variables, for a host that wants to look at them, perhaps while an execution waits. No code of the script runs. */
#include <string.h>

#include "walk.h"

#include "lvm.h"

static char known_key; /* registry: the globals as they were when the guest had booted */

void hf_lua_globals_boot(void) {
    lua_newtable(hf_main);
    lua_rawgeti(hf_main, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushnil(hf_main);
    while (lua_next(hf_main, -2)) {
        lua_pushvalue(hf_main, -2);
        lua_insert(hf_main, -2);
        lua_rawset(hf_main, -5);
    }
    lua_pop(hf_main, 1);
    lua_rawsetp(hf_main, LUA_REGISTRYINDEX, &known_key);
}

static void add(hf_listing *listing, hf_digest *digest, const hf_entry *entry, const Table *globals) {
    hf_buffer type = {0}, preview = {0};
    const char *name = hf_lua_type(entry->value);
    hf_put_string(&type, name, strlen(name));
    hf_lua_glance(&preview, entry->value, hf_listing_preview(listing));
    hf_digest_begin(digest);
    hf_digest_known(digest, globals); /* each of them has a digest of its own */
    hf_lua_walk(digest, entry->value);
    hf_listing_add(listing, hf_text(&entry->key), hf_length(&entry->key), &type, &preview, digest);
}

static bool is_listed(const hf_entry *entry, Table *known) {
    if (!ttisstring(&entry->key) || hf_length(&entry->key) > HF_NAME_MAX) return false;
    return !luaV_rawequalobj(luaH_get(known, &entry->key), entry->value);
}

static bool is_dollar(const hf_entry *entry) {
    return ttisstring(&entry->key) && hf_length(&entry->key) == 1 && *hf_text(&entry->key) == '$';
}

void hf_lua_globals(void) {
    lua_rawgetp(hf_main, LUA_REGISTRYINDEX, &known_key);
    Table *known = hvalue(hf_lua_top(hf_main));
    lua_rawgeti(hf_main, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    Table *globals = hvalue(hf_lua_top(hf_main));
    size_t count = hf_lua_shape(globals).count;
    hf_entry *entries = hf_malloc(count * sizeof *entries);
    hf_lua_entries(globals, entries, count);
    bool tagged = false;
    for (size_t i = 0; i < count && !tagged; i++) tagged = is_dollar(&entries[i]);
    hf_listing listing;
    hf_digest digest;
    hf_digest_open(&digest);
    hf_listing_begin(&listing, "table", tagged);
    for (size_t i = 0; i < count && !hf_listing_full(&listing); i++)
        if (is_listed(&entries[i], known)) add(&listing, &digest, &entries[i], globals);
    hf_free(entries);
    hf_digest_close(&digest);
    hf_listing_end(&listing);
}

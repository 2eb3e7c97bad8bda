/* The digest of a value. */
#ifndef HOLDFAST_LUA_WALK_H
#define HOLDFAST_LUA_WALK_H

#include "digest.h"
#include "table.h"

void hf_lua_walk(hf_digest *digest, const TValue *value);

#endif

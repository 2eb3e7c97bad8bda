/* Memory and stack: how Lua gets them, and what happens when there is no more. */
#include <string.h>

#include "guest.h"

#include "lgc.h"
#include "lobject.h"
#include "lstate.h"
#include "lstring.h"
#include "lvm.h"

/* ---- memory ------------------------------------------------------------------------------------------------------------------ */

static size_t wanted; /* what could not be had last */

void *hf_lua_allocate(void *unused, void *block, size_t old, size_t size) {
    if (!size) {
        hf_free(block);
        return NULL;
    }
    void *moved = hf_try_realloc(block, size);
    if (moved) return moved;
    size_t usable = hf_usable_size(block);
    if (block && size <= usable) { /* Lua relies on this: a block can always be made smaller */
        memset((char *)block + size, 0, usable - size);
        return block;
    }
    wanted = size;
    return NULL;
}

_Noreturn void hf_lua_exhausted(void) {
    uint64_t used = (uint64_t)__builtin_wasm_memory_size(0) * 65536;
    hf_breach(HF_MEMORY, used, used + wanted);
}

void *hf_lua_resize_box(lua_State *L, void *block, size_t size) {
    void *moved = hf_lua_allocate(NULL, block, 0, size);
    if (moved || !size) return moved;
    lua_gc(L, LUA_GCCOLLECT);
    moved = hf_lua_allocate(NULL, block, 0, size);
    if (!moved) hf_lua_exhausted();
    return moved;
}

/* ---- stack ------------------------------------------------------------------------------------------------------------------- */

enum { SLOT = sizeof(StackValue), LEAST_SLOTS = 1000 };

int hf_lua_stack_limit = LUAI_MAXSTACK;

void hf_language_stack(uint32_t kilobytes) {
    uint64_t slots = (uint64_t)kilobytes * 1024 / SLOT;
    hf_lua_stack_limit = !slots || slots > LUAI_MAXSTACK ? LUAI_MAXSTACK : slots < LEAST_SLOTS ? LEAST_SLOTS : (int)slots;
}

_Noreturn void hf_lua_stack_breach(size_t slots) {
    uint64_t allowed = (uint64_t)hf_lua_stack_limit * SLOT, actual = (uint64_t)slots * SLOT;
    hf_breach(HF_STACK, allowed, actual > allowed ? actual : allowed + SLOT);
}

/* C calls are counted and not measured; the breach is told in the same unit as the other, one level too many. */
_Noreturn void hf_lua_nesting_breach(void) {
    uint64_t allowed = (uint64_t)hf_lua_stack_limit * SLOT;
    hf_breach(HF_STACK, allowed, allowed + allowed / LUAI_MAXCCALLS);
}

/* A message handler that raises an error is called for that error too. This looks whether it has been for some time. */
int hf_lua_handler_fails(lua_State *L, const TValue *handler) {
    enum { FRAMES = 50, CALLS = 10 };
    int calls = 0, frames = 0;
    for (const CallInfo *ci = L->ci; ci && frames < FRAMES; ci = ci->previous, frames++)
        calls += luaV_rawequalobj(s2v(ci->func.p), handler);
    return calls >= CALLS;
}

void hf_lua_reserve(lua_State *L, int slots) {
    if (!lua_checkstack(L, slots)) hf_lua_stack_breach((size_t)hf_lua_stack_limit + (size_t)slots);
}

/* ---- garbage ------------------------------------------------------------------------------------------------------------------- */

enum { SLACK_KB = 512, LARGE_KB = 4096 };

static int kept_kb;                 /* after the last full collection */
static uint32_t idle, patience = 1; /* steps since then; how many until the next look at a large heap */

void hf_lua_collect(void) {
    lua_gc(hf_main, LUA_GCCOLLECT);
    kept_kb = lua_gc(hf_main, LUA_GCCOUNT);
    idle = 0;
}

/* A full collection touches every object, which costs time and makes the next delta large. So there is one when the heap has more
 * than doubled; and, since a large heap may be dropped in a later step that allocates little, again after 1, 2, 4, ... steps. */
void hf_lua_settle(void) {
    int grown = lua_gc(hf_main, LUA_GCCOUNT) > 2 * kept_kb + SLACK_KB;
    idle++;
    if (!grown && (kept_kb < LARGE_KB || idle < patience)) return;
    patience = grown ? 1 : patience * 2;
    hf_lua_collect();
}

static size_t size_of_code(const Proto *code) {
    return sizeof *code + (size_t)code->sizecode * sizeof *code->code + (size_t)code->sizek * sizeof *code->k +
           (size_t)code->sizep * sizeof *code->p + (size_t)code->sizeupvalues * sizeof *code->upvalues;
}

static size_t size_if_constant(GCObject *object) { /* 0 if it is not */
    switch (object->tt) {
        case LUA_VSHRSTR: return sizelstring(gco2ts(object)->shrlen);
        case LUA_VLNGSTR: return sizelstring(gco2ts(object)->u.lnglen);
        case LUA_VPROTO: return size_of_code(gco2p(object));
        default: return 0;
    }
}

/* To mark an object is to change it. Strings and the code of functions lead to nothing but each other and never change, so those of the
 * libraries are put where Lua keeps its reserved words, which no collection marks or frees: then no image holds a page of them. They are
 * not counted as memory in use either, or else as much garbage as they are large would be waited for. */
void hf_lua_keep_forever(void) {
    global_State *g = G(hf_main);
    for (GCObject **at = &g->allgc, *object; (object = *at);) {
        size_t size = size_if_constant(object);
        if (!size) {
            at = &object->next;
            continue;
        }
        *at = object->next;
        object->next = g->fixedgc;
        g->fixedgc = object;
        resetbits(object->marked, WHITEBITS | bitmask(BLACKBIT)); /* gray, as luaC_fix makes them */
        setage(object, G_OLD);
        g->totalbytes -= (l_mem)size;
    }
    hf_lua_collect(); /* begins to count from what is left */
}

/* Finalizers may print, and nothing may follow a step's outcome: it was all done before that. */
void hf_language_settle(void) {}

/* How Lua is set up for the guest. The build puts this before every file of Lua's own (-include), so that most of what must differ
 * is said here; the few places that Lua leaves no switch for are edited when the guest is built (edits.py). */
#ifndef HOLDFAST_LUA_CONFIG_H
#define HOLDFAST_LUA_CONFIG_H

#include <stddef.h>

struct lua_State;
struct TValue;

/* Deterministic: the same input gives the same memory, so nothing may come from an address or a clock. */
#define luai_makeseed(L) 0x484F4C44u
#define l_randomizePivot() 0x46415354u

/* There is one locale, and there are no files: print is our own (base.c). */
#define lua_getlocaledecpoint() '.'
#define lua_writestring(text, length) ((void)(text))
#define lua_writeline() ((void)0)
#define lua_writestringerror(format, text) ((void)(text))

/* A limit is a breach and not an error that a script could catch. The official tests expect the errors, so their build has them. */
extern int hf_lua_stack_limit; /* in slots of a Lua stack */
_Noreturn void hf_lua_exhausted(void);
_Noreturn void hf_lua_stack_breach(size_t slots);
_Noreturn void hf_lua_nesting_breach(void);
int hf_lua_handler_fails(struct lua_State *L, const struct TValue *handler);
void *hf_lua_resize_box(struct lua_State *L, void *block, size_t size);

#ifdef HF_LUA_TESTS
#define HF_STACK_BREACH(slots) ((void)0)
#define HF_NESTING_BREACH() ((void)0)
#define HF_HANDLER_FAILS(L, handler) 0
#define HF_CHUNK_MODE(mode) (mode)
#else
#define HF_STACK_BREACH(slots) hf_lua_stack_breach(slots)
#define HF_NESTING_BREACH() hf_lua_nesting_breach()
#define HF_HANDLER_FAILS(L, handler) hf_lua_handler_fails(L, handler)
#define HF_CHUNK_MODE(mode) "t"
#endif

#endif

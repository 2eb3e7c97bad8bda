/* What the files of the Lua guest share.
 *
 * Theory of operation
 * -------------------
 * There are two threads that the host knows. `hf_main` is Lua's own main thread: it belongs to the host, and no script runs on it
 * except finalizers and __tostring while nothing else does. `hf_root` is a coroutine in which every execution runs, one after
 * the other; to a script it is the main thread: it cannot be yielded from, resumed or closed.
 *
 * A query is a yield of a mark: a light userdata that no script can make. The yield goes from the thread that asked to whoever
 * resumed it, which is either the host (from hf_root) or our coroutine library (coroutine.c), which yields the mark on. Each thread
 * knows its resumer, so before a query is asked it is certain that every thread between it and the host can yield. The answers wait
 * in query.c; when the host resumes hf_root, every resumer on the way resumes its coroutine again, and the one that asked
 * picks them up. To abandon an execution, all threads on that way are reset, so that a script that still has one finds it dead. Since one flow of control exists, one group of queries is open at a time, and an execution cannot end with any open.
 */
#ifndef HOLDFAST_LUA_GUEST_H
#define HOLDFAST_LUA_GUEST_H

#include "abi.h"

#include "lua.h"

#include "lauxlib.h"

extern lua_State *hf_main, *hf_root;

/* ---- limits.c --------------------------------------------------------------------------------------------------------------- */

void *hf_lua_allocate(void *unused, void *block, size_t old, size_t size);
void hf_lua_collect(void);
void hf_lua_settle(void); /* collects if there may be much garbage; finalizers run */
void hf_lua_keep_forever(void); /* what is there now and cannot change is never looked at by the collector again */
void hf_lua_reserve(lua_State *L, int slots); /* a stack that has no room for them is a breach */

/* ---- coroutine.c: threads and who resumed them ------------------------------------------------------------------------------- */

int hf_lua_open_coroutine(lua_State *L);
int hf_lua_is_main(lua_State *L);  /* as scripts see it */
int hf_lua_can_wait(lua_State *L); /* every thread from this one to the host can yield */
int hf_lua_is_mark(lua_State *L);  /* at the top */
_Noreturn void hf_lua_wait(lua_State *L, lua_KFunction then);
void hf_lua_drop_waiting(void); /* ends the execution where it waits; nothing of it runs any more, and hf_root is ready again */

/* ---- execution.c ------------------------------------------------------------------------------------------------------------------ */

hf_part hf_lua_code_of(hf_part file);
uint32_t hf_lua_executions(void); /* how many have begun */

/* ---- query.c: what the execution waits for ------------------------------------------------------------------------------------ */

void hf_lua_open_query(lua_State *L);
int hf_lua_waiting(void);
void hf_lua_put_pending(hf_buffer *record);
/* Takes the answers of a request: 0 if it was refused, 1 if something is still open, 2 if the script can go on. */
int hf_lua_answer(const hf_part *parts, uint32_t count);

void hf_lua_cancel(void); /* nobody waits any more; says so for each open query */

int hf_lua_query(lua_State *L, const char *kind, size_t length); /* the payload is at the top; returns its answer */
int hf_lua_query_batch(lua_State *L, uint32_t count); /* at the top: a table of kind, payload, kind, payload, ... */
int hf_lua_sleep(lua_State *L, double milliseconds);

/* ---- errors that are tables ----------------------------------------------------------------------------------------------------- */

void hf_lua_open_failure(lua_State *L);
void hf_lua_push_failure(lua_State *L, const char *code, const char *message);
void hf_lua_adopt_failure(lua_State *L); /* makes the value at the top, sent by the host, into one */
int hf_lua_fail(lua_State *L, const char *code, const char *message);
void hf_lua_put_failure(hf_buffer *out, lua_State *L, const char *name, const hf_buffer *stack); /* the error at the top */

/* ---- values ------------------------------------------------------------------------------------------------------------------------ */

extern char hf_lua_null; /* its address, as light userdata, is alc.null */

void hf_lua_open_values(lua_State *L);
int hf_lua_mark_array(lua_State *L, int index); /* 0 if it has a metatable of its own */
void hf_lua_encode(hf_buffer *out, lua_State *L); /* the value at the top */
/* Pushes the value, or returns 0 and pushes nothing if the text is no JSON. `inside`: null is alc.null and not nil. */
int hf_lua_decode(lua_State *L, const char *text, size_t length, int inside);
/* The same without tags, from `*at`, which is then where the value ends, or about where it is wrong. More text may follow. */
int hf_lua_decode_plain(lua_State *L, const char *text, size_t length, size_t *at);
void hf_lua_preview(hf_buffer *out, lua_State *L); /* the value at the top */
void hf_lua_put_float(hf_buffer *out, double number);
void hf_lua_globals(void);      /* the outcome that lists them; no code of the script runs */
void hf_lua_globals_boot(void); /* what is there now is not listed, as long as it stays */

/* ---- libraries ------------------------------------------------------------------------------------------------------------------- */

int hf_lua_open_os(lua_State *L);
int hf_lua_open_debug(lua_State *L);
void hf_lua_open_base(lua_State *L);
void hf_lua_open_sort(lua_State *L);
void hf_lua_open_gsub(lua_State *L);
void hf_lua_open_require(lua_State *L);
void hf_lua_loading_dropped(void); /* the bodies of modules that were running never end */
void hf_lua_open_alc(lua_State *L); /* leaves the library at the top, and what only the prelude is given */
void hf_lua_open_json(lua_State *L); /* into the two tables at the top */

/* ---- prelude.c: the part of the library that is written in Lua ----------------------------------------------------------------------- */

void hf_lua_run_prelude(lua_State *L); /* the two tables are at the top; they are gone afterwards */
/* For the prelude: a function of C that calls a given one of Lua. A script that returns what it returns is still there while it runs, and so
 * is found in stack traces, as the callers of all functions of C are. */
int hf_lua_entrance(lua_State *L);
/* The function of the script that called into the prelude: fills in what `lua_getinfo` says by "Sl". 0 if it was called from C. */
int hf_lua_caller(lua_State *L, lua_Debug *frame);

/* ---- host.c: calls to the host ----------------------------------------------------------------------------------------------------- */

/* Sends an operation and frees `arguments`. Pushes what the host says, or raises it. */
void hf_lua_ask_host(lua_State *L, char operation, hf_buffer *arguments);
/* Calls a host function with the arguments from `first` to the top. */
int hf_lua_call_host(lua_State *L, const char *name, size_t length, int first);
/* Pushes a function that does this. */
void hf_lua_push_host_function(lua_State *L, const char *name, size_t length);

#endif

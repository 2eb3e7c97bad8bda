/* What the guest needs of QuickJS beyond its public API. internals.c is compiled as a part of quickjs.c. */
#ifndef HOLDFAST_INTERNALS_H
#define HOLDFAST_INTERNALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quickjs.h"

struct DynBuf;

/* ---- called from edited places of quickjs.c ------------------------------------------------------------------------------- */

extern bool hf_soft_stack; /* while our own formatting runs: too deep is an exception, and the text falls back */

#define HF_BALLAST(size) \
    char hf_ballast[size]; \
    __asm__ volatile("" : : "r"(hf_ballast) : "memory") /* see edits.py */

_Noreturn void hf_stack_breach(JSRuntime *rt);
_Noreturn void hf_memory_breach(void);
int hf_redeclare(JSContext *ctx, JSAtom name, int flags, bool lexical);
void hf_stack_header(JSContext *ctx, JSValueConst error, struct DynBuf *out);
void hf_stack_forget(JSContext *ctx, JSValueConst error);

/* ---- promises, without resolving functions and without any look at what the script may have replaced ---------------------- */

JSValue hf_promise(JSContext *ctx);
void hf_promise_settle(JSContext *ctx, JSValueConst promise, JSValueConst value, bool reject);

/* ---- looking at values without running code of the script ----------------------------------------------------------------- */

enum hf_class { HF_PLAIN, HF_ARRAY, HF_CALLABLE, HF_ERROR, HF_DATE, HF_BOXED, HF_BYTES, HF_MAP, HF_SET, HF_PROXY, HF_OTHER };

enum hf_class hf_classify(JSContext *ctx, JSValueConst object);
JSValue hf_own_data(JSContext *ctx, JSValueConst object, JSAtom name); /* undefined unless an own data property */
JSValue hf_constructor_name(JSContext *ctx, JSValueConst object);      /* a string or undefined */
JSValue hf_unbox(JSContext *ctx, JSValueConst object);                 /* what a Date, Number, String, Boolean, BigInt object holds */
const uint8_t *hf_bytes(JSValueConst object, size_t *length);          /* of an ArrayBuffer, a typed array or a DataView */
JSValue *hf_entries(JSContext *ctx, JSValueConst collection, uint32_t *count); /* key, value, ...; free with hf_entries_free */
void hf_entries_free(JSContext *ctx, JSValue *entries, uint32_t count);
JSValue hf_global(JSContext *ctx, JSAtom name); /* let, const, class, then globalThis; undefined if there is none */

/* ---- the runtime ---------------------------------------------------------------------------------------------------------- */

/* Modules that were loaded after `before` and never ran: an import of one of them failed, so they may point at freed ones. */
void *hf_modules_last(JSContext *ctx);
void hf_modules_forget(JSContext *ctx, void *before);

void hf_random_seed(JSContext *ctx, uint64_t seed);
size_t hf_memory_in_use(JSRuntime *rt);
void hf_arenas_seal(JSRuntime *rt); /* what comes later must not lie between what is there */

#endif

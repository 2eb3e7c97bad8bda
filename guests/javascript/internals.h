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

/* ---- which execution code belongs to ---------------------------------------------------------------------------------------- */

extern uint32_t hf_owner; /* its number, of the code that runs now */
void hf_abandon(JSContext *ctx, uint32_t owner); /* nothing of it will ever run; runs no code of the script */

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

/* The same without any change of memory: what is returned is borrowed. */
typedef struct {
    enum { HF_DATA, HF_ACCESSOR, HF_LAZY } kind; /* lazy: built in, and made when it is first used */
    JSAtom name;
    int flags;
    JSValueConst value, setter; /* of an accessor the getter */
} hf_slot;

uint32_t hf_slots(JSValueConst object); /* of own properties, empty ones among them */
bool hf_slot_at(JSValueConst object, uint32_t index, hf_slot *slot); /* false: empty */
bool hf_has(JSValueConst object, JSAtom name);
JSValueConst hf_lexicals(JSContext *ctx); /* its properties are let, const and class of the top level */
bool hf_is_text(JSContext *ctx, JSAtom name, size_t most); /* a string, and not longer */
bool hf_is_private(JSContext *ctx, JSAtom name); /* as #this is */
const JSValue *hf_elements(JSValueConst array, uint32_t *count); /* of an array, unless it is sparse */
void *hf_next_entry(JSValueConst collection, void *after, JSValueConst *key, JSValueConst *value); /* NULL: no more */
uint32_t hf_size(JSValueConst collection);
JSValueConst hf_held(JSValueConst object); /* what hf_unbox gives */
JSValueConst hf_handler(JSValueConst proxy, JSValueConst *target);
JSValueConst hf_settled(JSValueConst promise, JSPromiseStateEnum *state);
bool hf_is_view(JSValueConst object, uint32_t *count); /* a typed array */
bool hf_is_long(JSValueConst bigint); /* of so many digits that nobody reads them */
int hf_class_id(JSValueConst object);
bool hf_is_bare(JSValueConst object); /* without a prototype */
bool hf_is_extensible(JSValueConst object);
const char *hf_source(JSValueConst function, size_t *length); /* NULL: it is not written in JavaScript */
const char *hf_pattern(JSValueConst object, JSValueConst *pattern); /* of a RegExp; returns its flags, or NULL if it is none */
JSValue hf_date_text(JSContext *ctx, JSValueConst date); /* not borrowed */
JSValue hf_inherited(JSContext *ctx, JSValueConst object, JSAtom name); /* not borrowed; undefined unless a data property */
size_t hf_units(JSValueConst string, uint16_t *units, size_t most); /* copies its beginning */

struct hf_digest;
void hf_digest_string(struct hf_digest *digest, JSValueConst string); /* or a symbol: its description */
void hf_digest_atom(JSContext *ctx, struct hf_digest *digest, JSAtom atom);
void hf_digest_bigint(struct hf_digest *digest, JSValueConst bigint);

JSValue hf_global(JSContext *ctx, JSAtom name); /* let, const, class, then globalThis; undefined if there is none */

/* ---- the runtime ---------------------------------------------------------------------------------------------------------- */

/* Modules that were loaded after `before` and never ran: an import of one of them failed, so they may point at freed ones. */
void *hf_modules_last(JSContext *ctx);
void hf_modules_forget(JSContext *ctx, void *before);

void hf_random_seed(JSContext *ctx, uint64_t seed);
size_t hf_memory_in_use(JSRuntime *rt);
void hf_arenas_seal(JSRuntime *rt); /* what comes later must not lie between what is there */

#endif

/* Digests: a hash of 64 bits of what a value holds, however deep, for hosts that want to know what changed between two states.
 *
 * Theory of operation
 * -------------------
 * Objects are walked breadth first. One that is met for the first time gets the next number and is queued; what is hashed at the
 * place where it was met is the number. So cycles end, sharing counts, and no address is ever hashed: equal content has equal
 * digests in every fork. The queue is the only state of the walk, so nesting needs no stack.
 *
 * The work is bounded. A unit is a number, or 64 bytes of text; an object is 8. What lies beyond the bound is not in the digest.
 */
#ifndef HOLDFAST_DIGEST_H
#define HOLDFAST_DIGEST_H

#include <stdbool.h>

#include "abi.h"

typedef struct hf_digest {
    uint64_t hash;
    uint32_t units, total; /* that are left: for this value, and for all values */
    struct hf_seen *seen;
    uint32_t slots, round;
    const void **queue;
    uint32_t queued, next, capacity;
} hf_digest;

void hf_digest_open(hf_digest *digest);
void hf_digest_begin(hf_digest *digest); /* the next value */
void hf_digest_put(hf_digest *digest, hf_buffer *out); /* 16 hex digits */
void hf_digest_close(hf_digest *digest);

uint64_t hf_digest_mix(uint64_t hash, uint64_t word);
void hf_digest_tag(hf_digest *digest, uint64_t word); /* costs nothing: something follows that does */
void hf_digest_word(hf_digest *digest, uint64_t word);
void hf_digest_number(hf_digest *digest, double number); /* all NaNs are one */
void hf_digest_bytes(hf_digest *digest, const void *data, size_t length);
size_t hf_digest_room(hf_digest *digest, size_t length); /* for `length` bytes: takes units, returns how many there may be */
bool hf_digest_spent(const hf_digest *digest);

void hf_digest_known(hf_digest *digest, const void *object); /* one that is told apart from others, but not walked */
void hf_digest_object(hf_digest *digest, const void *object);
const void *hf_digest_next(hf_digest *digest); /* the next one to walk, or NULL */

/* ---- the record that lists global variables ------------------------------------------------------------------------------------- */

enum { HF_NAMES_MAX = 10000, HF_NAME_MAX = 1000, HF_LISTING_MAX = 4 << 20, HF_PREVIEW_SHORT = 100 };

typedef struct {
    hf_buffer record;
    uint32_t names;
    bool tagged;
} hf_listing;

void hf_listing_begin(hf_listing *listing, const char *type, bool tagged); /* tagged: one of the names is "$" */
bool hf_listing_full(const hf_listing *listing);
size_t hf_listing_preview(const hf_listing *listing); /* how long the next preview may be */
/* `type` and `preview` are JSON, and are freed. */
void hf_listing_add(hf_listing *listing, const char *name, size_t length, hf_buffer *type, hf_buffer *preview, hf_digest *digest);
void hf_listing_end(hf_listing *listing);

#endif

/* See digest.h. */
#include "digest.h"

#include <math.h>
#include <string.h>

enum {
    UNITS_EACH = 4000000, /* some 200,000 objects with a few properties each, in a twentieth of a second */
    UNITS_ALL = 3 * UNITS_EACH,
    UNITS_LEAST = 64, /* even when the others have used all: enough for what is no object */
    UNITS_OBJECT = 8,
    UNIT_BYTES = 64,
    FIRST_SLOTS = 1024,
};

struct hf_seen {
    const void *object;
    uint32_t number, round; /* of an earlier round: the slot is free */
};

/* ---- hashing ---------------------------------------------------------------------------------------------------------------------- */

uint64_t hf_digest_mix(uint64_t hash, uint64_t word) { /* FNV-1a by words; the shift brings high bits down */
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
    return hash ^ hash >> 32;
}

static void spend(hf_digest *d, uint32_t units) { d->units = d->units > units ? d->units - units : 0; }

bool hf_digest_spent(const hf_digest *d) { return !d->units; }

void hf_digest_tag(hf_digest *d, uint64_t word) { d->hash = hf_digest_mix(d->hash, word); }

void hf_digest_word(hf_digest *d, uint64_t word) {
    spend(d, 1);
    hf_digest_tag(d, word);
}

void hf_digest_number(hf_digest *d, double number) {
    uint64_t bits;
    if (isnan(number)) number = NAN;
    memcpy(&bits, &number, 8);
    hf_digest_word(d, bits);
}

size_t hf_digest_room(hf_digest *d, size_t length) {
    size_t most = (size_t)d->units * UNIT_BYTES, kept = length < most ? length : most;
    spend(d, (uint32_t)(kept / UNIT_BYTES));
    return kept;
}

void hf_digest_bytes(hf_digest *d, const void *data, size_t length) {
    uint64_t word, hash;
    hf_digest_word(d, length);
    size_t kept = hf_digest_room(d, length), at = 0;
    hash = d->hash;
    for (; at + 8 <= kept; at += 8) {
        memcpy(&word, (const char *)data + at, 8);
        hash = hf_digest_mix(hash, word);
    }
    word = 0;
    if (at < kept) memcpy(&word, (const char *)data + at, kept - at);
    d->hash = hf_digest_mix(hash, word);
}

/* ---- objects ---------------------------------------------------------------------------------------------------------------------- */

/* The slot of an object, or the free one where it belongs. */
static struct hf_seen *slot_of(hf_digest *d, const void *object) {
    uint32_t at = (uint32_t)(hf_digest_mix(0, (uintptr_t)object) >> 16);
    for (;; at++) {
        struct hf_seen *slot = &d->seen[at & (d->slots - 1)];
        if (slot->round != d->round || slot->object == object) return slot;
    }
}

static void grow(hf_digest *d) {
    struct hf_seen *before = d->seen;
    d->slots *= 2;
    d->seen = hf_calloc(d->slots, sizeof *d->seen);
    hf_free(before);
    for (uint32_t i = 0; i < d->queued; i++) *slot_of(d, d->queue[i]) = (struct hf_seen){d->queue[i], i, d->round};
}

static uint32_t number_of(hf_digest *d, const void *object) {
    struct hf_seen *slot = slot_of(d, object);
    if (slot->round == d->round) return slot->number;
    if (d->queued == d->capacity) {
        d->capacity *= 2;
        d->queue = hf_realloc(d->queue, d->capacity * sizeof *d->queue);
    }
    d->queue[d->queued] = object;
    *slot = (struct hf_seen){object, d->queued++, d->round};
    if (d->queued > d->slots / 2) grow(d);
    return d->queued - 1;
}

void hf_digest_known(hf_digest *d, const void *object) {
    number_of(d, object);
    d->next = d->queued;
}

void hf_digest_object(hf_digest *d, const void *object) { hf_digest_word(d, number_of(d, object)); }

const void *hf_digest_next(hf_digest *d) {
    if (d->next == d->queued || hf_digest_spent(d)) return NULL;
    spend(d, UNITS_OBJECT);
    return d->queue[d->next++];
}

/* ---- digests ---------------------------------------------------------------------------------------------------------------------- */

void hf_digest_open(hf_digest *d) {
    *d = (hf_digest){.total = UNITS_ALL};
    d->slots = FIRST_SLOTS;
    d->seen = hf_calloc(d->slots, sizeof *d->seen);
    d->capacity = FIRST_SLOTS;
    d->queue = hf_malloc(d->capacity * sizeof *d->queue);
}

void hf_digest_begin(hf_digest *d) {
    d->hash = 0xCBF29CE484222325u;
    d->units = d->total < UNITS_EACH ? d->total : UNITS_EACH;
    if (d->units < UNITS_LEAST) d->units = UNITS_LEAST;
    d->total -= d->units < d->total ? d->units : d->total; /* what is left is given back */
    d->round++;
    d->queued = d->next = 0;
}

void hf_digest_put(hf_digest *d, hf_buffer *out) {
    d->total += d->units;
    for (int shift = 60; shift >= 0; shift -= 4) hf_put_char(out, "0123456789abcdef"[d->hash >> shift & 15]);
}

void hf_digest_close(hf_digest *d) {
    hf_free(d->seen);
    hf_free(d->queue);
}

/* ---- the listing ------------------------------------------------------------------------------------------------------------------ */

void hf_listing_begin(hf_listing *listing, const char *type, bool tagged) {
    *listing = (hf_listing){.tagged = tagged};
    hf_put_text(&listing->record, "[\"value\",\"");
    hf_put_text(&listing->record, type);
    hf_put_text(&listing->record, tagged ? "\",\"[globals]\",{\"$\":\"object\",\"v\":{" : "\",\"[globals]\",{");
}

bool hf_listing_full(const hf_listing *listing) {
    return listing->names == HF_NAMES_MAX || listing->record.length > HF_LISTING_MAX;
}

size_t hf_listing_preview(const hf_listing *listing) {
    return listing->record.length > HF_LISTING_MAX / 4 ? HF_PREVIEW_SHORT : HF_PREVIEW_MAX; /* so that all names have room */
}

void hf_listing_add(hf_listing *listing, const char *name, size_t length, hf_buffer *type, hf_buffer *preview, hf_digest *digest) {
    hf_buffer *out = &listing->record;
    if (listing->names++) hf_put_char(out, ',');
    hf_put_string(out, name, length);
    hf_put_text(out, ":{\"type\":");
    hf_put(out, type->data, type->length);
    hf_put_text(out, ",\"preview\":");
    hf_put(out, preview->data, preview->length);
    hf_put_text(out, ",\"digest\":\"");
    hf_digest_put(digest, out);
    hf_put_text(out, "\"}");
    hf_buffer_free(type);
    hf_buffer_free(preview);
}

void hf_listing_end(hf_listing *listing) {
    hf_put_text(&listing->record, listing->tagged ? "}}]" : "}]");
    hf_outcome(&listing->record);
}

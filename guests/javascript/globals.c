/* The global variables, for a host that wants to look at them, perhaps while an execution waits. No code of the script runs. */
#include "guest.h"

/* What was there when the guest had booted. It is listed only if something else took its place, and no digest looks into it: its
 * parts appear when they are first used, which is no change that anyone made. */
static struct {
    JSAtom name;
    JSValue value; /* of an accessor the getter */
} *known;
static uint32_t known_count;

void guest_globals_boot(void) {
    JSContext *ctx = guest.ctx;
    hf_slot slot;
    uint32_t count = hf_slots(guest.global);
    known = hf_malloc(count * sizeof *known);
    for (uint32_t i = 0; i < count; i++) {
        if (!hf_slot_at(guest.global, i, &slot)) continue;
        if (slot.kind == HF_LAZY) { /* make it now, so that it stays the same */
            JS_FreeValue(ctx, JS_GetProperty(ctx, guest.global, slot.name));
            hf_slot_at(guest.global, i, &slot);
        }
        known[known_count].name = JS_DupAtom(ctx, slot.name);
        known[known_count++].value = JS_DupValue(ctx, slot.value);
    }
}

static bool is_known(const hf_slot *slot) {
    for (uint32_t i = 0; i < known_count; i++)
        if (known[i].name == slot->name) return JS_IsSameValue(guest.ctx, known[i].value, slot->value);
    return false;
}

/* ---- one variable --------------------------------------------------------------------------------------------------------- */

static void put_type(hf_buffer *out, const hf_slot *slot) {
    if (slot->kind != HF_DATA)
        hf_put_text(out, "\"accessor\"");
    else if (JS_VALUE_GET_TAG(slot->value) == JS_TAG_UNINITIALIZED)
        hf_put_text(out, "\"uninitialized\"");
    else
        guest_put_type(out, slot->value);
}

static void put_preview(hf_buffer *out, const hf_slot *slot, size_t limit) {
    hf_buffer text = {0};
    if (slot->kind == HF_DATA)
        guest_put_glance(&text, slot->value, limit);
    else
        guest_put_accessor(&text, slot);
    hf_put_string(out, text.data ? text.data : "", text.length);
    hf_buffer_free(&text);
}

static void walk(hf_digest *digest, const hf_slot *slot) {
    hf_digest_begin(digest);
    for (uint32_t i = 0; i < known_count; i++)
        if (JS_IsObject(known[i].value)) hf_digest_known(digest, JS_VALUE_GET_PTR(known[i].value));
    hf_digest_word(digest, slot->kind);
    guest_walk(digest, slot->value, slot->setter);
}

static void add(hf_listing *listing, hf_digest *digest, const hf_slot *slot) {
    hf_buffer type = {0}, preview = {0};
    size_t length;
    if (!hf_is_text(guest.ctx, slot->name, HF_NAME_MAX)) return;
    put_type(&type, slot);
    put_preview(&preview, slot, hf_listing_preview(listing));
    walk(digest, slot);
    const char *name = JS_AtomToCStringLen(guest.ctx, &length, slot->name);
    hf_listing_add(listing, name, length, &type, &preview, digest);
    JS_FreeCString(guest.ctx, name);
}

/* ---- all of them ---------------------------------------------------------------------------------------------------------- */

void guest_globals(void) {
    JSValueConst lexicals = hf_lexicals(guest.ctx);
    hf_listing listing;
    hf_digest digest;
    hf_slot slot;
    hf_digest_open(&digest);
    hf_listing_begin(&listing, "Object", hf_has(lexicals, guest.dollar) || hf_has(guest.global, guest.dollar));
    for (uint32_t i = 0, count = hf_slots(lexicals); i < count && !hf_listing_full(&listing); i++)
        if (hf_slot_at(lexicals, i, &slot)) add(&listing, &digest, &slot);
    for (uint32_t i = 0, count = hf_slots(guest.global); i < count && !hf_listing_full(&listing); i++)
        if (hf_slot_at(guest.global, i, &slot) && !is_known(&slot) && !hf_has(lexicals, slot.name)) add(&listing, &digest, &slot);
    hf_digest_close(&digest);
    hf_listing_end(&listing);
}

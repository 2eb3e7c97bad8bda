/* Promises that were rejected while nobody listened. They are told apart at the end of a step: until then, someone may. */
#include <string.h>

#include "guest.h"

typedef struct {
    JSValue promise, reason;
} rejection;

static rejection *pending;
static uint32_t count, capacity;

void guest_unhandled(JSValueConst error) {
    hf_buffer record = {0};
    hf_put_text(&record, "[\"unhandled\",");
    guest_put_error(&record, error);
    hf_put_char(&record, ']');
    hf_emit(&record);
}

static void release(rejection *done) {
    JSValue promise = done->promise, reason = done->reason;
    *done = (rejection){JS_UNDEFINED, JS_UNDEFINED};
    JS_FreeValues(guest.ctx, promise, reason);
}

/* Everything that waited for a cancelled query is rejected with it. The record of the cancellation says it all. */
static bool by_cancelling(JSValueConst reason) {
    if (!JS_IsError(reason)) return false;
    JSValue code = hf_own_data(guest.ctx, reason, guest.code);
    const char *text = JS_IsString(code) ? JS_ToCString(guest.ctx, code) : NULL;
    bool found = text && !strcmp(text, QUERY_CANCELLED);
    JS_FreeCString(guest.ctx, text);
    JS_FreeValue(guest.ctx, code);
    return found;
}

static void track(JSContext *ctx, JSValueConst promise, JSValueConst reason, bool is_handled, void *unused) {
    (void)unused;
    if (is_handled) {
        for (uint32_t i = 0; i < count; i++)
            if (JS_IsObject(pending[i].promise) && JS_VALUE_GET_PTR(pending[i].promise) == JS_VALUE_GET_PTR(promise)) release(&pending[i]);
        return;
    }
    if (count == capacity) {
        capacity = capacity ? capacity * 2 : 8;
        pending = hf_realloc(pending, capacity * sizeof *pending);
    }
    pending[count++] = (rejection){JS_DupValue(ctx, promise), JS_DupValue(ctx, reason)};
}

void guest_rejections_report(JSValueConst own) {
    for (uint32_t i = 0; i < count; i++) { /* telling may run code of the script, and that may reject more */
        rejection *at = &pending[i];
        if (!JS_IsObject(at->promise)) continue;
        if (JS_IsObject(own) && JS_VALUE_GET_PTR(own) == JS_VALUE_GET_PTR(at->promise)) {
            release(at);
            continue;
        }
        JSValue reason = JS_DupValue(guest.ctx, at->reason);
        release(at);
        if (!by_cancelling(reason)) guest_unhandled(reason);
        JS_FreeValue(guest.ctx, reason);
    }
    count = 0;
    if (capacity > 64) {
        hf_free(pending);
        pending = NULL;
        capacity = 0;
    }
}

void guest_rejections_boot(void) { JS_SetHostPromiseRejectionTracker(guest.rt, track, NULL); }

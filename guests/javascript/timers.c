/* Timers and the clock of the script. A timer is a date, not a countdown: it survives a pause of a month. */
#include <math.h>
#include <string.h>

#include "guest.h"

typedef struct {
    double due, interval; /* interval 0: once */
    uint32_t id, execution; /* of the step that set it: a file waits for its timers */
    uint32_t owner;         /* of the code that set it, which may have waited since an earlier execution */
    JSValue target; /* a function to call, or a promise to fulfil */
    JSValue *arguments;
    int count;
} timer;

static timer *heap; /* the next one first */
static uint32_t length, capacity, last;
static double origin; /* of performance.now: when the session had its first step */
static uint32_t firing; /* the interval whose function runs now; 0 once it was cleared */

/* ---- the heap ------------------------------------------------------------------------------------------------------------- */

static bool earlier(const timer *a, const timer *b) { return a->due < b->due || (a->due == b->due && a->id < b->id); }

static void swap(uint32_t a, uint32_t b) {
    timer kept = heap[a];
    heap[a] = heap[b];
    heap[b] = kept;
}

static void rise(uint32_t at) {
    for (; at && earlier(&heap[at], &heap[(at - 1) / 2]); at = (at - 1) / 2) swap(at, (at - 1) / 2);
}

static void sink(uint32_t at) {
    for (;;) {
        uint32_t first = at, child = at * 2 + 1;
        for (uint32_t i = child; i < child + 2 && i < length; i++)
            if (earlier(&heap[i], &heap[first])) first = i;
        if (first == at) return;
        swap(at, first);
        at = first;
    }
}

static void push(timer added) {
    if (length == capacity) {
        capacity = capacity ? capacity * 2 : 8;
        heap = hf_realloc(heap, capacity * sizeof *heap);
    }
    heap[length++] = added;
    rise(length - 1);
}

static timer take(uint32_t at) {
    timer taken = heap[at];
    heap[at] = heap[--length];
    memset(&heap[length], 0, sizeof *heap);
    if (at < length) {
        rise(at);
        sink(at);
    }
    return taken;
}

static void release(timer *done) {
    JS_FreeValue(guest.ctx, done->target);
    for (int i = 0; i < done->count; i++) JS_FreeValue(guest.ctx, done->arguments[i]);
    hf_free(done->arguments);
}

/* ---- firing --------------------------------------------------------------------------------------------------------------- */

bool guest_timer_fire(void) {
    JSContext *ctx = guest.ctx;
    if (!length || heap[0].due > hf_clock_now()) return false;
    timer due = take(0);
    uint32_t before = hf_owner;
    if (!JS_IsFunction(ctx, due.target)) {
        hf_promise_settle(ctx, due.target, JS_UNDEFINED, false);
        release(&due);
        return true;
    }
    firing = due.interval ? due.id : 0;
    hf_owner = due.owner;
    JSValue result = JS_Call(ctx, due.target, JS_UNDEFINED, due.count, (JSValueConst *)due.arguments);
    if (JS_IsException(result)) {
        JSValue thrown = JS_GetException(ctx);
        guest_unhandled(thrown);
        JS_FreeValue(ctx, thrown);
    }
    hf_owner = before;
    JS_FreeValue(ctx, result);
    if (due.interval && firing == due.id) {
        due.due = hf_clock_now() + due.interval; /* what a long pause has missed is not made up for */
        push(due);
    } else
        release(&due);
    firing = 0;
    return true;
}

double guest_timers_wake(void) { return length ? heap[0].due : NAN; }

bool guest_timers_of(uint32_t execution) {
    for (uint32_t i = 0; i < length; i++)
        if (heap[i].execution == execution) return true;
    return false;
}

void guest_timers_drop(uint32_t owner) {
    uint32_t all = length;
    length = 0;
    for (uint32_t i = 0; i < all; i++) { /* those that stay make a heap again, in the part that was read */
        timer next = heap[i];
        memset(&heap[i], 0, sizeof *heap);
        if (next.owner == owner)
            release(&next);
        else {
            heap[length] = next;
            rise(length++);
        }
    }
}

/* ---- what scripts call ---------------------------------------------------------------------------------------------------- */

static double delay_of(double milliseconds, double least) {
    enum { YEARS_300 = 300 };
    double most = YEARS_300 * 366.0 * 86400e3;
    if (!(milliseconds > least)) return least;
    return milliseconds > most ? most : milliseconds;
}

static JSValue js_set(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int repeats) {
    if (argc < 1 || !JS_IsFunction(ctx, argv[0])) return JS_ThrowTypeError(ctx, "the callback must be a function");
    double milliseconds = 0;
    if (argc > 1 && JS_ToFloat64(ctx, &milliseconds, argv[1])) return JS_EXCEPTION;
    milliseconds = delay_of(milliseconds, repeats ? 1 : 0);
    timer added = {hf_clock_now() + milliseconds, repeats ? milliseconds : 0, ++last, guest_execution(), hf_owner,
                   JS_DupValue(ctx, argv[0]), NULL, argc > 2 ? argc - 2 : 0};
    if (added.count) added.arguments = hf_malloc((size_t)added.count * sizeof(JSValue));
    for (int i = 0; i < added.count; i++) added.arguments[i] = JS_DupValue(ctx, argv[i + 2]);
    push(added);
    return JS_NewUint32(ctx, added.id);
}

static JSValue js_clear(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    uint32_t id = 0;
    if (argc && JS_IsNumber(argv[0])) JS_ToUint32(ctx, &id, argv[0]);
    if (id && id == firing) firing = 0;
    for (uint32_t i = 0; id && i < length; i++) {
        if (heap[i].id != id) continue;
        timer cleared = take(i);
        release(&cleared);
        break;
    }
    return JS_UNDEFINED;
}

JSValue guest_sleep(double milliseconds) {
    JSValue promise = hf_promise(guest.ctx);
    push((timer){hf_clock_now() + delay_of(milliseconds, 0), 0, ++last, guest_execution(), hf_owner,
                 JS_DupValue(guest.ctx, promise), NULL, 0});
    return promise;
}

/* ---- performance ---------------------------------------------------------------------------------------------------------- */

void guest_clock_starts(bool now) {
    if (!now)
        origin = 0;
    else if (!origin)
        origin = hf_clock_now();
}

static JSValue js_now(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewNumber(ctx, hf_clock_now() - origin);
}

static JSValue js_origin(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) { return JS_NewNumber(ctx, origin); }

static JSValue js_performance_json(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JSValue object = JS_NewObject(ctx);
    guest_define(object, "timeOrigin", JS_NewNumber(ctx, origin));
    return object;
}

void guest_timers_boot(void) {
    JSContext *ctx = guest.ctx;
    JSValue performance = JS_NewObject(ctx);
    JSAtom name = JS_NewAtom(ctx, "timeOrigin");
    guest_define(guest.global, "setTimeout", JS_NewCFunctionMagic(ctx, js_set, "setTimeout", 2, JS_CFUNC_generic_magic, 0));
    guest_define(guest.global, "setInterval", JS_NewCFunctionMagic(ctx, js_set, "setInterval", 2, JS_CFUNC_generic_magic, 1));
    guest_define(guest.global, "clearTimeout", guest_function(js_clear, "clearTimeout", 1));
    guest_define(guest.global, "clearInterval", guest_function(js_clear, "clearInterval", 1));
    guest_define(performance, "now", guest_function(js_now, "now", 0));
    guest_define(performance, "toJSON", guest_function(js_performance_json, "toJSON", 0));
    JS_DefinePropertyGetSet(ctx, performance, name, guest_function(js_origin, "timeOrigin", 0), JS_UNDEFINED, JS_PROP_CONFIGURABLE);
    guest_define(guest.global, "performance", performance);
    JS_FreeAtom(ctx, name);
}

/* Queries: what a script asked and nobody has answered yet. */
#include <string.h>

#include "guest.h"

typedef struct {
    uint32_t id;
    JSValue promise;
} query;

static query *open;
static uint32_t count, capacity;
bool guest_ending;

/* ---- asking --------------------------------------------------------------------------------------------------------------- */

JSValue guest_ask(JSValueConst kind, JSValueConst payload) {
    JSContext *ctx = guest.ctx;
    if (!JS_IsString(kind)) return JS_ThrowTypeError(ctx, "the kind of a query must be a string");
    hf_buffer encoded = {0}, record = {0};
    guest_encode(&encoded, payload); /* may run code of the script, which may ask on its own: only then is a number taken */
    JSValue promise = hf_promise(ctx);
    if (guest_ending) {
        hf_buffer_free(&encoded);
        return promise;
    }
    uint32_t id = hf_next_query();
    hf_put_text(&record, "[\"query\",");
    hf_put_integer(&record, id);
    hf_put_char(&record, ',');
    guest_put_js_string(&record, kind);
    hf_put_char(&record, ',');
    hf_put(&record, encoded.data, encoded.length);
    hf_put_char(&record, ']');
    hf_buffer_free(&encoded);
    if (count == capacity) {
        capacity = capacity ? capacity * 2 : 8;
        open = hf_realloc(open, capacity * sizeof *open);
    }
    open[count++] = (query){id, JS_DupValue(ctx, promise)};
    hf_emit_query(&record);
    return promise;
}

uint32_t guest_queries_open(void) { return count; }

void guest_put_queries(hf_buffer *out) {
    hf_put_char(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        if (i) hf_put_char(out, ',');
        hf_put_integer(out, open[i].id);
    }
    hf_put_char(out, ']');
}

/* ---- answering ------------------------------------------------------------------------------------------------------------ */

static query *find(uint32_t id) { /* they are in the order of their ids */
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (open[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && open[low].id == id ? &open[low] : NULL;
}

static void drop(query *closed) {
    memmove(closed, closed + 1, (size_t)(open + count - closed - 1) * sizeof *closed);
    memset(&open[--count], 0, sizeof *open);
}

typedef struct {
    uint32_t id;
    bool is_error;
    JSValue value;
} answer;

/* Reads one part; says what is wrong with it, or NULL. */
static const char *read_answer(const hf_part *part, const answer *earlier, uint32_t known, answer *out, const char **message) {
    out->value = JS_UNDEFINED;
    *message = "an answer must be a query id, v or e, and JSON";
    if (part->length < 6) return "BAD_ANSWER";
    memcpy(&out->id, part->data, 4);
    out->is_error = part->data[4] == 'e';
    if (!out->is_error && part->data[4] != 'v') return "BAD_ANSWER";
    *message = "no query with this id was ever asked";
    if (!out->id || out->id > hf_queries_asked()) return "UNKNOWN_QUERY";
    *message = "the query is not open: it was answered or cancelled";
    if (!find(out->id)) return "QUERY_NOT_OPEN";
    *message = "the query is answered twice in one request";
    for (uint32_t i = 0; i < known; i++)
        if (earlier[i].id == out->id) return "QUERY_NOT_OPEN";
    *message = "the answer is not valid JSON";
    out->value = guest_decode(part->data + 5, part->length - 5);
    if (!JS_IsException(out->value)) return NULL;
    JS_FreeValue(guest.ctx, JS_GetException(guest.ctx));
    out->value = JS_UNDEFINED;
    return "BAD_ANSWER";
}

bool guest_answer(const hf_part *parts, uint32_t number) {
    JSContext *ctx = guest.ctx;
    answer few[4], *answers = number <= 4 ? few : hf_malloc(number * sizeof *answers);
    const char *refusal = NULL, *message = NULL;
    uint32_t known = 0;
    while (known < number && !refusal) {
        refusal = read_answer(&parts[known], answers, known, &answers[known], &message);
        known++;
    }
    if (refusal) hf_refuse(refusal, message);
    for (uint32_t i = 0; i < known; i++) {
        if (!refusal) {
            query *asked = find(answers[i].id);
            JSValue value = answers[i].is_error ? guest_error_from(answers[i].value) : JS_DupValue(ctx, answers[i].value);
            JSValue promise = asked->promise;
            drop(asked);
            hf_promise_settle(ctx, promise, value, answers[i].is_error);
            JS_FreeValues(ctx, promise, value);
        }
        JS_FreeValue(ctx, answers[i].value);
    }
    if (answers != few) hf_free(answers);
    return !refusal;
}

/* ---- cancelling ----------------------------------------------------------------------------------------------------------- */

/* Closes the first one and says so. Its promise is the caller's. */
static JSValue cancel_first(void) {
    hf_buffer record = {0};
    JSValue promise = open[0].promise;
    hf_put_text(&record, "[\"cancelled\",");
    hf_put_integer(&record, open[0].id);
    hf_put_char(&record, ']');
    drop(&open[0]);
    hf_emit(&record);
    return promise;
}

static void shrink(void) {
    if (capacity <= 64) return; /* many were open once */
    hf_free(open);
    open = NULL;
    capacity = 0;
}

/* The execution ended. Code that still waits hears of it, but what it asks from now on is never answered: a loop that asks again
 * whatever happens would otherwise never end. */
void guest_queries_cancel(void) {
    JSContext *ctx = guest.ctx;
    guest_ending = true;
    while (count) {
        JSValue promise = cancel_first();
        JSValue error = guest_error("Error", "the query was cancelled: its execution has ended", QUERY_CANCELLED);
        JS_PromiseMarkAsHandled(ctx, promise);
        hf_promise_settle(ctx, promise, error, true);
        JS_FreeValues(ctx, promise, error);
    }
    shrink();
    guest_run_jobs();
    guest_ending = false;
}

void guest_queries_drop(void) {
    while (count) JS_FreeValue(guest.ctx, cancel_first());
    shrink();
}

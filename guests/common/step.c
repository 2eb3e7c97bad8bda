/* One step: read the request, let the language do it, leave the records. See abi.h for the whole picture. */
#include <string.h>
#include <wasm_simd128.h>

#include "abi.h"

enum { INPUT_SIZE = 16384, OUTPUT_SIZE = 16384 };

static char small_input[INPUT_SIZE], small_output[OUTPUT_SIZE];

static struct { /* the host reads this; keep it in step with Control in sandbox/guest.py */
    uint32_t abi;
    char *input;
    uint32_t input_capacity;
    char *output;
    uint32_t output_capacity;
    uint32_t output_length;
    uint32_t breach;
    uint64_t breach_allowed, breach_actual;
} control = {HF_ABI_VERSION, small_input, INPUT_SIZE, small_output, OUTPUT_SIZE, 0, 0, 0, 0};

/* The guest may be stopped at any loop or call, and what the host then finds must be whole. */
#define IN_ORDER __asm__ volatile("" : : : "memory")

static struct {
    uint32_t max_events, max_output, max_suspensions;
} limits;
static struct { /* events, output and questions of the present step; suspensions of the present execution */
    uint32_t events, output, questions, suspensions;
} used;
static uint32_t queries;

_Noreturn void hf_breach(enum hf_limit limit, uint64_t allowed, uint64_t actual) {
    control.breach = limit;
    control.breach_allowed = allowed;
    control.breach_actual = actual;
    __builtin_trap();
}

/* ---- records ---------------------------------------------------------------------------------------------------------------- */

static void count_output(const hf_buffer *record) {
    uint64_t total = (uint64_t)used.output + record->length;
    if (limits.max_output && total > limits.max_output) hf_breach(HF_OUTPUT, limits.max_output, total);
    used.output = (uint32_t)total;
}

static void append(hf_buffer *record) {
    uint32_t needed = control.output_length + record->length + 1;
    if (needed > control.output_capacity) {
        uint32_t capacity = needed > UINT32_MAX / 2 ? needed : needed * 2;
        char *larger = hf_malloc(capacity), *smaller = control.output;
        memcpy(larger, smaller, control.output_length);
        IN_ORDER;
        control.output = larger;
        control.output_capacity = capacity;
        IN_ORDER;
        if (smaller == small_output)
            memset(small_output, 0, OUTPUT_SIZE);
        else
            hf_free(smaller);
    }
    char *end = control.output + control.output_length;
    if (control.output_length) *end++ = ',';
    memcpy(end, record->data, record->length);
    IN_ORDER;
    control.output_length = (uint32_t)(end - control.output) + record->length; /* last: a record is whole or not there */
    hf_buffer_free(record);
}

static void count_event(void) {
    if (limits.max_events && used.events >= limits.max_events) hf_breach(HF_EVENTS, limits.max_events, (uint64_t)used.events + 1);
    used.events++;
}

void hf_emit(hf_buffer *record) {
    count_event();
    count_output(record);
    append(record);
}

void hf_emit_query(hf_buffer *record) {
    enum { QUESTIONS_MAX = 16 << 20 }; /* bytes of one step: a prompt is not output, but the host has to read it */
    count_event();
    uint64_t total = (uint64_t)used.questions + record->length;
    if (total > QUESTIONS_MAX) hf_breach(HF_OUTPUT, QUESTIONS_MAX, total);
    used.questions = (uint32_t)total;
    append(record);
}

void hf_outcome(hf_buffer *record) {
    count_output(record);
    append(record);
}

void hf_refuse(const char *code, const char *message) {
    hf_buffer record = {0};
    hf_put_text(&record, "[\"refused\",");
    hf_put_string(&record, code, strlen(code));
    hf_put_char(&record, ',');
    hf_put_string(&record, message, strlen(message));
    hf_put_char(&record, ']');
    append(&record); /* no output of the script's: wrong answers must not use up its limit */
}

void hf_execution_begins(void) { memset(&used, 0, sizeof used); }

void hf_execution_waits(void) {
    used.suspensions++;
    if (limits.max_suspensions && used.suspensions > limits.max_suspensions)
        hf_breach(HF_SUSPENSIONS, limits.max_suspensions, used.suspensions);
}

uint32_t hf_next_query(void) { return ++queries; }
uint32_t hf_queries_asked(void) { return queries; }

/* ---- the dead part of the stack ---------------------------------------------------------------------------------------------- */

/* Below the stack pointer lies what finished calls left behind: buffers with pieces of strings among it. Downwards from the
 * pointer everything is zeroed until a stretch of zeros that is longer than any frame leaves untouched. */
__attribute__((target("simd128"), noinline)) static void scrub_stack(void) {
    enum { STRETCH = 32768, STEP = 128 };
    uintptr_t top;
    __asm__ volatile(".globaltype __stack_pointer, i32\n\tglobal.get __stack_pointer\n\tlocal.set %0" : "=r"(top));
    v128_t *at = (v128_t *)(top & ~(uintptr_t)15);
    uint32_t clean = 0;
    while (clean < STRETCH && (uintptr_t)at >= 2 * STEP) {
        at -= STEP / sizeof *at;
        v128_t some = (at[0] | at[1] | at[2] | at[3]) | (at[4] | at[5] | at[6] | at[7]);
        clean += STEP;
        if (wasm_v128_any_true(some)) {
            for (int i = 0; i < 8; i++) ((volatile v128_t *)at)[i] = wasm_u64x2_const_splat(0);
            clean = 0;
        }
    }
}

/* ---- exports ------------------------------------------------------------------------------------------------------------------- */

HF_EXPORT(hf_control) void *hf_export_control(void) { return &control; }

HF_EXPORT(hf_boot) void hf_export_boot(void) {
    hf_language_boot();
    hf_language_settle();
    scrub_stack();
}

HF_EXPORT(hf_input) char *hf_export_input(uint32_t length) {
    if (length > control.input_capacity) {
        control.input = hf_malloc(length);
        control.input_capacity = length;
    }
    return control.input;
}

static __attribute__((noinline)) void perform(uint32_t length) {
    struct hf_request request;
    if (length < sizeof request) {
        hf_refuse("BAD_REQUEST", "the request is too short");
        return;
    }
    memcpy(&request, control.input, sizeof request);
    uint32_t at = sizeof request, count = request.parts;
    if (count > (length - at) / 4) {
        hf_refuse("BAD_REQUEST", "the request has fewer parts than it says");
        return;
    }
    hf_part few[8], *parts = count <= 8 ? few : hf_malloc(count * sizeof *parts);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = 0;
        if (length - at >= 4) memcpy(&size, control.input + at, 4);
        if (length - at < 4 || length - at - 4 < size) {
            hf_refuse("BAD_REQUEST", "a part of the request is longer than the request");
            goto done;
        }
        parts[i] = (hf_part){control.input + at + 4, size};
        at += 4 + size;
    }
    limits.max_events = request.max_events;
    limits.max_output = request.max_output;
    limits.max_suspensions = request.max_suspensions;
    if (request.op == HF_ABANDON || request.op == HF_GLOBALS) memset(&limits, 0, sizeof limits); /* the script says nothing here */
    hf_clock_set(request.now);
    hf_language_stack(request.stack_kb);
    if (request.flags & HF_HAS_SEED) hf_language_seed(request.seed);
    uint32_t first = 0;
    if (request.flags & HF_HAS_ZONE && count) {
        hf_clock_zone(parts[0].data, parts[0].length);
        first = 1;
    }
    if (request.op == HF_CONFIGURE) {
        hf_buffer record = {0};
        hf_put_text(&record, "[\"value\",\"undefined\",\"undefined\",{\"$\":\"undefined\"}]");
        append(&record);
        goto done;
    }
    used.events = used.output = used.questions = 0;
    hf_language_step(request.op, parts + first, count - first);
    used.events = used.output = used.questions = 0; /* no difference between images by what was said */
    if (request.op == HF_SEAL) {
        memset(&used, 0, sizeof used);
        hf_heap_seal();
    }
done:
    if (parts != few) hf_free(parts);
}

HF_EXPORT(hf_step) uint64_t hf_export_step(uint32_t length) {
    if (control.output != small_output) { /* the last step said much: back to the small buffer */
        hf_free(control.output);
        control.output = small_output;
        control.output_capacity = OUTPUT_SIZE;
    }
    perform(length);
    memset(control.input, 0, length);
    if (control.input != small_input) {
        hf_free(control.input);
        control.input = small_input;
        control.input_capacity = INPUT_SIZE;
    }
    hf_language_settle();
    scrub_stack();
    uint32_t size = control.output_length;
    control.output_length = 0; /* the host has it now: a trap before the next record must not show these again */
    return (uint64_t)(uintptr_t)control.output << 32 | size;
}

/* ---- the host ---------------------------------------------------------------------------------------------------------------------- */

__attribute__((import_module("holdfast"), import_name("call"))) uint32_t host_call(uint32_t operation, const char *request,
                                                                                   uint32_t length, char *reply, uint32_t capacity);
__attribute__((import_module("holdfast"), import_name("take"))) void host_take(char *reply, uint32_t length);

char hf_host(char operation, const hf_buffer *arguments, char **reply, size_t *length) {
    enum { HEAD = 9, SMALL = 512 }; /* a reply: f64 now, 'v' or 'e', JSON */
    char small[SMALL];
    uint32_t size = host_call((unsigned char)operation, arguments->data, arguments->length, small, SMALL);
    char *whole = small;
    if (size > SMALL) {
        whole = hf_malloc(size);
        host_take(whole, size);
    }
    double moved;
    memcpy(&moved, whole, 8);
    hf_clock_set(moved);
    char status = whole[8];
    *length = size - HEAD;
    *reply = hf_malloc(*length + 1);
    memcpy(*reply, whole + HEAD, *length);
    (*reply)[*length] = 0;
    if (whole != small) hf_free(whole);
    memset(small, 0, SMALL);
    __asm__ volatile("" : : "r"(small) : "memory"); /* the optimiser may not think that nobody looks */
    return status;
}

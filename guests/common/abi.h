/* The one ABI that every Holdfast guest speaks.
 *
 * Theory of operation
 * -------------------
 * A guest is a language runtime in a WebAssembly instance. At rest its linear memory is its whole state: nothing lives in
 * locals, tables, or the host, and nothing in memory is a host pointer. That is why a copy of the memory can be thawed anywhere.
 *
 * The host drives it with one crossing per step:
 *
 *     1. it writes a request (struct hf_request and its parts) at control.input, or asks hf_input() for a larger buffer;
 *     2. it calls hf_step(length);
 *     3. it reads the records at the returned address, and zeroes them.
 *
 * Records are JSON arrays separated by commas. They are appended whole, so that after a trap the host finds in `control` every
 * record that was finished before it. The last record of a step that was not trapped is its outcome:
 *
 *     ["console", level, text]            a line of output; level: log info warn error debug
 *     ["query", id, kind, payload]        a question was asked
 *     ["log", {level, message}]           a line for the log of the run
 *     ["progress", {step, total, message}] how far the script is; message: text or null
 *     ["stat", {key, value}]              a figure of the script's own
 *     ["cancelled", id]                   a question left open by an execution that has ended
 *     ["unhandled", error]                a promise was rejected and nobody listens
 *     ["value", type, preview]            outcome: the execution ended; no JSON form exists
 *     ["value", type, preview, value]     outcome: the execution ended
 *     ["error", error]                    outcome: the execution ended with an error {name, message, stack, code?, value?}
 *     ["pending", wake, [id, ...]]        outcome: the execution waits for these, or for the clock to reach `wake` (ms or null)
 *     ["refused", code, message]          outcome: the request made no sense; nothing was changed
 *
 * A limit is a rollback, never a branch in the script: hf_breach() notes what was exceeded and traps. The host then throws the
 * instance away. The same holds for memory (the allocator) and the stack (each runtime's own check).
 *
 * While a step runs, the guest may call the host: hf_host() sends a request and gets a reply, both as bytes.
 */
#ifndef HOLDFAST_ABI_H
#define HOLDFAST_ABI_H

#include <stddef.h>
#include <stdint.h>

#define HF_ABI_VERSION 1
#define HF_EXPORT(name) __attribute__((export_name(#name), visibility("default")))

enum { /* the longest preview of a value, in bytes, and the deepest nesting of one that crosses */
    HF_PREVIEW_MAX = 2000,
    HF_DEPTH_MAX = 200,
};

/* ---- requests --------------------------------------------------------------------------------------------------------- */

enum hf_op {
    HF_EVALUATE = 1, /* parts: source, file name */
    HF_RUN_FILE = 2, /* parts: source, file name, arguments (JSON); perhaps an environment (JSON): both then have short names too */
    HF_RESUME = 3,   /* parts: one an answer: u32 query id, 'v' or 'e', JSON; none: only the clock moved */
    HF_CALL = 4,     /* parts: name of a global function, JSON array of arguments */
    HF_SEAL = 5,     /* no parts: a template is finished; counters start again */
    HF_CONFIGURE = 6, /* no parts: take the seed and the time zone, and do nothing */
    HF_ABANDON = 7,   /* no parts: the waiting execution is over, and no code of it runs any more */
    HF_GLOBALS = 8,   /* no parts: describe the global variables, at any time, and run no code of the script */
};

enum { HF_HAS_SEED = 1, HF_HAS_ZONE = 2 };

struct hf_request { /* little endian, 40 bytes, then `parts` times: u32 length, bytes */
    uint8_t op;
    uint8_t flags; /* HF_HAS_ZONE: the first part is a time zone (see clock.c) and not one of the operation's own */
    uint16_t unused;
    uint32_t parts;
    uint32_t stack_kb; /* the limits: zero means none, for the stack the default */
    uint32_t max_events;
    uint32_t max_output; /* bytes */
    uint32_t max_suspensions;
    double now;
    uint64_t seed;
};

typedef struct { /* a part; what it points at is zeroed when the step ends */
    const char *data;
    uint32_t length;
} hf_part;

/* ---- what each language supplies ---------------------------------------------------------------------------------------- */

void hf_language_boot(void);
void hf_language_seed(uint64_t seed);
void hf_language_stack(uint32_t kilobytes); /* zero: the default */
void hf_language_step(enum hf_op op, const hf_part *parts, uint32_t count);
void hf_language_settle(void); /* at the end of each step: collect garbage if there is much of it */

/* ---- text that grows ------------------------------------------------------------------------------------------------------ */

typedef struct {
    char *data;
    uint32_t length, capacity;
} hf_buffer;

void hf_put(hf_buffer *buffer, const void *data, size_t length);
void hf_put_text(hf_buffer *buffer, const char *text);
void hf_put_char(hf_buffer *buffer, char character);
void hf_put_integer(hf_buffer *buffer, int64_t integer);
/* A JSON string. Lone surrogates in three bytes become \ud8xx, other bytes that are not UTF-8 become U+FFFD. */
void hf_put_string(hf_buffer *buffer, const char *utf8, size_t length);
void hf_put_base64(hf_buffer *buffer, const void *data, size_t length);
void hf_buffer_free(hf_buffer *buffer);

int hf_is_utf8(const char *data, size_t length);
/* Decodes into `out`, which must hold length / 4 * 3 bytes; returns the number of bytes or -1. */
int hf_base64_decode(const char *text, size_t length, char *out);
/* At most `limit` bytes of `text`, cut between characters. */
size_t hf_clip(const char *text, size_t length, size_t limit);

/* ---- what a step says ------------------------------------------------------------------------------------------------------- */

/* Appends a whole record and frees its buffer. hf_emit counts it as an event and as output of the step, hf_emit_query only as an event,
 * hf_outcome only as output. */
void hf_emit(hf_buffer *record);
void hf_emit_query(hf_buffer *record);
void hf_outcome(hf_buffer *record);
void hf_refuse(const char *code, const char *message);

/* Executions: the counter of suspensions starts again; a suspension is counted when an execution waits. */
void hf_execution_begins(void);
void hf_execution_waits(void);
/* Query ids are never used twice in a session. */
uint32_t hf_next_query(void);   /* takes one */
uint32_t hf_queries_asked(void); /* the last one taken */

enum hf_limit { HF_MEMORY = 1, HF_STACK = 2, HF_EVENTS = 3, HF_OUTPUT = 4, HF_SUSPENSIONS = 5 };
_Noreturn void hf_breach(enum hf_limit limit, uint64_t allowed, uint64_t actual);

/* ---- the host, while a step runs ---------------------------------------------------------------------------------------------- */

enum { HF_HOST_CALL = 'c', HF_HOST_RESOLVE = 'r', HF_HOST_LOAD = 'l' };

/* Sends `operation` and a JSON array: call [name, [argument, ...]], resolve [specifier, referrer, "import"|"require"], load [name].
 * Returns 'v' or 'e' and sets `reply` to JSON text that the caller frees with hf_free. Moves the clock. Error replies are
 * {code, message}; a resolve is answered with a string, a load with {kind, source} or {kind: "functions", names: [...]}, where
 * kind is "module", "commonjs", "json", "script" or "functions", or "either": CommonJS if it can be, else an ES module. */
char hf_host(char operation, const hf_buffer *arguments, char **reply, size_t *length);

/* ---- memory: zeroed when freed, so that secrets do not stay and images stay small ------------------------------------------- */

void *hf_malloc(size_t size); /* never NULL: the limit of memory is a breach */
void *hf_calloc(size_t count, size_t size);
void *hf_realloc(void *block, size_t size);
void hf_free(void *block);
size_t hf_usable_size(const void *block);
void hf_heap_seal(void); /* once, when a template is finished */
/* The same, for a runtime that can collect garbage and try again: NULL when there is no memory. */
void *hf_try_realloc(void *block, size_t size);

/* ---- the clock: stands still within a step, except after host calls ------------------------------------------------------------ */

void hf_clock_set(double milliseconds);
double hf_clock_now(void);
void hf_clock_zone(const char *data, uint32_t length);

#endif

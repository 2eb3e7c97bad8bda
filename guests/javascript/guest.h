/* What the files of the JavaScript guest share.
 *
 * Theory of operation
 * -------------------
 * QuickJS runs in the instance; its heap is the session. An execution is one promise: that of a snippet, of a module, or of a
 * call. A step gives it something to go on with (a source, answers, a later clock), runs jobs and due timers until nothing moves,
 * and looks at the promise:
 *
 *     settled                       the execution ended: value or error
 *     queries open, or timers left  it waits
 *     neither                       nothing can ever settle it: an error that says so
 *
 * The script owns everything that it can reach, so the bridge (queries, values, host calls, settling) is written in C, on
 * objects and functions that were taken before any script ran. JavaScript of our own (prelude/) formats text and supplies web APIs.
 */
#ifndef HOLDFAST_GUEST_H
#define HOLDFAST_GUEST_H

#include "digest.h"
#include "internals.h"

extern struct guest {
    JSRuntime *rt;
    JSContext *ctx;
    JSValue global;
    JSValue inspect, format; /* of the prelude: a value to text; console arguments to text */
    JSValue ask_model; /* of the prelude: asks a model for what fits a schema */
    JSValue bigint, map, map_set, set, set_add;
    JSAtom dollar, value, to_json, name, message, stack, code, cause, prototype, schema;
} guest;

/* ---- values: encode.c, decode.c, extract.c, describe.c, errors.c ---------------------------------------------------------- */

void guest_encode(hf_buffer *out, JSValueConst value); /* never throws */
bool guest_has_json(JSValueConst value);
JSValue guest_decode(const char *text, size_t length); /* an exception if it is not JSON */
JSValue guest_parse(const char *text, size_t length);  /* the same, without tags */
JSValue guest_parse_any(const char *text, size_t length); /* the same, but text that is nested too deep is no breach */
JSValue guest_extract(const char *text, size_t length);   /* the first object or array in a text, or null */

void guest_put_js_string(hf_buffer *out, JSValueConst string); /* as JSON; the value must be a string */
void guest_put_number(hf_buffer *out, double number);
void guest_put_type(hf_buffer *out, JSValueConst value);
void guest_put_preview(hf_buffer *out, JSValueConst value, size_t limit); /* plain text, not JSON; never throws */
void guest_put_plain(hf_buffer *out, JSValueConst string); /* the bytes of a string */

/* The same without running code of the script, whatever the value is: walk.c, glance.c, globals.c. */
void guest_put_glance(hf_buffer *out, JSValueConst value, size_t limit); /* plain text */
void guest_put_accessor(hf_buffer *out, const hf_slot *slot);
void guest_clip(hf_buffer *out, uint32_t start, size_t limit); /* what was put since `start` */
void guest_walk(hf_digest *digest, JSValueConst value, JSValueConst more); /* and another, which may be undefined */
void guest_globals(void); /* the outcome that lists them */
void guest_globals_boot(void); /* what is there now is not listed, as long as it stays */

void guest_put_error(hf_buffer *out, JSValueConst thrown); /* the error object of a record; never throws */
void guest_put_error_fields(hf_buffer *out, JSValueConst error);
void guest_put_thrown(hf_buffer *out, const char *before, const char *after); /* the pending exception as one line; clears it */
JSValue guest_error(const char *name, const char *message, const char *code);
JSValue guest_error_from(JSValueConst description); /* {name?, message, code?, stack?, cause?} */

/* ---- the world outside: bridge.c, console.c, modules.c, require.c, library.c ---------------------------------------------- */

JSValue guest_host(char operation, const hf_buffer *arguments); /* the decoded reply; throws what the host reports */
JSValue guest_host_call(const char *name, size_t length, int argc, JSValueConst *argv);
JSValue guest_host_functions(JSValueConst names, JSValueConst module); /* an object of functions */
char *guest_resolve(const char *specifier, const char *referrer, const char *how); /* js_free it; NULL: exception */
JSValue guest_load(const char *name);                                              /* {kind, source} or {kind, names} */
bool guest_is_commonjs(const char *name, JSValueConst source); /* whether it compiles as that */
JSValue guest_require(const char *name, JSValueConst loaded); /* module.exports; `loaded` if it was loaded already, else undefined */
JSValue guest_require_for(const char *referrer); /* the function; NULL: relative to the file that calls it */

void guest_bridge_boot(void);
void guest_console_boot(void);
void guest_modules_boot(void);
void guest_require_boot(void);
void guest_library_boot(JSValueConst native);
JSValue guest_numbers(void); /* hf.math: numbers.c */
JSValue guest_compile_module(const char *source, size_t length, const char *name); /* and what it imports */

/* ---- what an execution waits for: queries.c, timers.c, rejections.c, execution.c ------------------------------------------ */

JSValue guest_ask(JSValueConst kind, JSValueConst payload); /* a promise */
uint32_t guest_queries_open(void);
void guest_put_queries(hf_buffer *out);
bool guest_answer(const hf_part *answers, uint32_t count); /* false: refused, and nothing was changed */
void guest_queries_cancel(void);
void guest_queries_drop(void); /* the same, and nobody hears of it */
#define QUERY_CANCELLED "QUERY_CANCELLED" /* the code of the error that its promise is rejected with */
extern bool guest_ending; /* an execution is ending: what is asked now will never be answered */

void guest_timers_boot(void);
void guest_clock_starts(bool now); /* performance.now counts from here; false: from the next step */
bool guest_timer_fire(void); /* the next due one, if there is one */
double guest_timers_wake(void); /* when the next is due; NaN: none */
bool guest_timers_of(uint32_t execution);
void guest_timers_drop(uint32_t owner);
JSValue guest_sleep(double milliseconds);

void guest_rejections_boot(void);
void guest_rejections_report(JSValueConst own); /* all but that of the execution's own promise */
void guest_unhandled(JSValueConst error);
void guest_run_jobs(void);
uint32_t guest_execution(void); /* its number */
void guest_baseline(void); /* a template is finished: collect, and count garbage from here */

/* ---- small help ----------------------------------------------------------------------------------------------------------- */

void guest_define(JSValueConst object, const char *name, JSValue value); /* as on the web: writable, configurable, hidden */
JSValue guest_function(JSCFunction *function, const char *name, int length);
char *guest_copy(const char *data, size_t length); /* with a NUL at its end; hf_free it */

#endif

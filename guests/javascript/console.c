/* console: lines of output become records. What is plain text is put together here; the rest is formatted by the prelude. */
#include <string.h>

#include "guest.h"

static const char *const levels[] = {"log", "info", "warn", "error", "debug"};
static uint32_t indent; /* of console.group */

static void put_indented(hf_buffer *out, const char *text, size_t length) {
    size_t start = 0;
    for (size_t i = 0; i <= length; i++) {
        if (i < length && text[i] != '\n') continue;
        for (uint32_t j = 0; j < indent; j++) hf_put_text(out, "  ");
        hf_put(out, text + start, i - start);
        if (i < length) hf_put_char(out, '\n');
        start = i + 1;
    }
}

static void print(const char *level, const char *text, size_t length) {
    hf_buffer record = {0}, lines = {0};
    if (indent) {
        put_indented(&lines, text, length);
        text = lines.data;
        length = lines.length;
    }
    hf_put_text(&record, "[\"console\",\"");
    hf_put_text(&record, level);
    hf_put_text(&record, "\",");
    hf_put_string(&record, text, length);
    hf_put_char(&record, ']');
    hf_buffer_free(&lines);
    hf_emit(&record);
}

static bool is_plain(int argc, JSValueConst *argv) {
    for (int i = 0; i < argc; i++)
        if (JS_IsObject(argv[i])) return false;
    if (argc < 2 || !JS_IsString(argv[0])) return true;
    size_t length;
    const char *first = JS_ToCStringLen(guest.ctx, &length, argv[0]);
    bool found = first && memchr(first, '%', length);
    JS_FreeCString(guest.ctx, first);
    return !found;
}

static void format(hf_buffer *out, int argc, JSValueConst *argv) {
    JSContext *ctx = guest.ctx;
    JSValue text = JS_UNDEFINED;
    if (!is_plain(argc, argv)) {
        bool before = hf_soft_stack;
        hf_soft_stack = true;
        text = JS_Call(ctx, guest.format, JS_UNDEFINED, argc, argv);
        hf_soft_stack = before;
        if (JS_IsException(text)) JS_FreeValue(ctx, JS_GetException(ctx));
    }
    if (JS_IsString(text))
        guest_put_plain(out, text);
    else {
        for (int i = 0; i < argc; i++) {
            if (i) hf_put_char(out, ' ');
            guest_put_preview(out, argv[i], UINT32_MAX);
        }
    }
    JS_FreeValue(ctx, text);
}

static JSValue js_log(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int level) {
    hf_buffer text = {0};
    format(&text, argc, argv);
    print(levels[level], text.data, text.length);
    hf_buffer_free(&text);
    return JS_UNDEFINED;
}

static JSValue js_group(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    if (argc) js_log(ctx, this, argc, argv, 0);
    indent++;
    return JS_UNDEFINED;
}

static JSValue js_group_end(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    if (indent) indent--;
    return JS_UNDEFINED;
}

void guest_console_boot(void) {
    JSContext *ctx = guest.ctx;
    JSValue console = JS_NewObject(ctx);
    for (int i = 0; i < 5; i++) {
        JSValue function = JS_NewCFunctionMagic(ctx, js_log, levels[i], 0, JS_CFUNC_generic_magic, i);
        JS_DefinePropertyValueStr(ctx, console, levels[i], function, JS_PROP_C_W_E);
    }
    JS_DefinePropertyValueStr(ctx, console, "group", guest_function(js_group, "group", 0), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, console, "groupCollapsed", guest_function(js_group, "groupCollapsed", 0), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, console, "groupEnd", guest_function(js_group_end, "groupEnd", 0), JS_PROP_C_W_E);
    guest_define(guest.global, "console", console);
}

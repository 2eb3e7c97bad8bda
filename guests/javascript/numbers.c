/* hf.math: what numbers.h describes, for JavaScript. Reading an array may run code of the script, which may throw. */
#include <math.h>
#include <string.h>

#include "numbers.h"
#include "rng.h"

static JSClassID rng_class;

/* ---- arguments ---------------------------------------------------------------------------------------------------------------------- */

static void *resize(void *unused, void *block, size_t size) { return (void)unused, hf_realloc(block, size); }

static bool length_of(JSValueConst array, int64_t *length) {
    uint32_t count;
    if (!JS_IsObject(array)) return false;
    if (hf_is_view(array, &count)) {
        *length = count;
        return true;
    }
    return JS_IsArray(array) && JS_GetLength(guest.ctx, array, length) == 0;
}

static hf_reading read_list(hf_calculation *c, JSValueConst array, bool nested, hf_list *list);

static hf_reading read_element(hf_calculation *c, JSValueConst element, bool nested, hf_list *list) {
    double number;
    if (JS_IsNumber(element)) {
        JS_ToFloat64(guest.ctx, &number, element);
        hf_list_add(c, list, number);
        return HF_READ;
    }
    if (!nested) return HF_WRONG;
    hf_list inner = {0};
    hf_reading reading = read_list(c, element, false, &inner);
    hf_list_add(c, list, hf_first_relevant(&inner));
    hf_free(inner.values);
    return reading;
}

static hf_reading read_list(hf_calculation *c, JSValueConst array, bool nested, hf_list *list) {
    JSContext *ctx = guest.ctx;
    int64_t length;
    if (!length_of(array, &length)) return JS_HasException(ctx) ? HF_THROWN : HF_WRONG;
    for (int64_t i = 0; i < length; i++) {
        JSValue element = JS_GetPropertyInt64(ctx, array, i);
        hf_reading reading = JS_IsException(element) ? HF_THROWN : read_element(c, element, nested, list);
        JS_FreeValue(ctx, element);
        if (reading != HF_READ) return reading;
    }
    return HF_READ;
}

static hf_reading read_option(JSValueConst options, hf_name name, hf_argument *argument) {
    JSContext *ctx = guest.ctx;
    char written[HF_NAME_LENGTH];
    if (!JS_IsObject(options)) return HF_WRONG;
    hf_camel_case(name, written);
    JSValue value = JS_GetPropertyStr(ctx, options, written);
    bool is_bool = JS_IsBool(value), is_absent = JS_IsUndefined(value) || JS_IsNull(value), is_thrown = JS_IsException(value);
    argument->integer = is_bool && JS_VALUE_GET_BOOL(value);
    JS_FreeValue(ctx, value);
    return is_bool ? HF_READ : is_absent ? HF_ABSENT : is_thrown ? HF_THROWN : HF_WRONG;
}

static hf_reading read(hf_calculation *c, uint32_t at, char way, hf_name name, hf_argument *argument) {
    const double largest = 9007199254740991;
    JSValueConst value = ((JSValueConst *)c->with)[at];
    int64_t length = 0;
    if (JS_IsUndefined(value) || JS_IsNull(value)) return HF_ABSENT;
    switch (way) {
    case 'n':
        return JS_IsNumber(value) && JS_ToFloat64(guest.ctx, &argument->number, value) == 0 ? HF_READ : HF_WRONG;
    case 'i':
        if (!JS_IsNumber(value) || JS_ToFloat64(guest.ctx, &argument->number, value)) return HF_WRONG;
        if (fabs(argument->number) > largest || argument->number != trunc(argument->number)) return HF_WRONG;
        argument->integer = (int64_t)argument->number;
        return HF_READ;
    case 'r':
        argument->rng = JS_GetOpaque(value, rng_class);
        return argument->rng ? HF_READ : HF_WRONG;
    case 't':
        if (!length_of(value, &length)) return JS_HasException(guest.ctx) ? HF_THROWN : HF_WRONG;
        argument->count = (uint32_t)length;
        return length == argument->count ? HF_READ : HF_WRONG;
    case 'b':
        return read_option(value, name, argument);
    default:
        return read_list(c, value, way == 'm', &argument->list);
    }
}

/* ---- results ------------------------------------------------------------------------------------------------------------------------ */

static JSValue new_numbers(const double *values, uint32_t count) {
    JSContext *ctx = guest.ctx;
    JSValue *items = hf_malloc(count * sizeof *items);
    for (uint32_t i = 0; i < count; i++) items[i] = JS_NewNumber(ctx, values[i]);
    JSValue array = JS_NewArrayFrom(ctx, (int)count, items);
    hf_free(items);
    return array;
}

static JSValue new_rows(const hf_calculation *c) {
    JSContext *ctx = guest.ctx;
    uint32_t count = (uint32_t)c->integer;
    JSValue *rows = hf_malloc(count * sizeof *rows);
    for (uint32_t row = 0; row < count; row++) rows[row] = new_numbers(c->lists[0].values + row * c->width, c->width);
    JSValue array = JS_NewArrayFrom(ctx, (int)count, rows);
    hf_free(rows);
    return array;
}

static JSValue new_elements(JSValueConst array, const hf_list *indexes) {
    JSContext *ctx = guest.ctx;
    JSValue elements = JS_NewArray(ctx);
    for (uint32_t i = 0; i < indexes->count; i++) {
        JSValue element = JS_GetPropertyInt64(ctx, array, (int64_t)indexes->values[i]);
        if (JS_IsException(element) || JS_DefinePropertyValueUint32(ctx, elements, i, element, JS_PROP_C_W_E) < 0) {
            JS_FreeValue(ctx, elements);
            return JS_EXCEPTION;
        }
    }
    return elements;
}

/* All elements are read before the first is written. */
static JSValue shuffled(JSValueConst array, const hf_list *order) {
    JSContext *ctx = guest.ctx;
    JSValue elements = new_elements(array, order);
    if (JS_IsException(elements)) return elements;
    bool failed = false;
    for (uint32_t i = 0; i < order->count && !failed; i++)
        failed = JS_SetPropertyInt64(ctx, array, i, JS_GetPropertyUint32(ctx, elements, i)) < 0;
    JS_FreeValue(ctx, elements);
    return failed ? JS_EXCEPTION : JS_DupValue(ctx, array);
}

static JSValue new_record(const hf_calculation *c, const char *gives) {
    JSContext *ctx = guest.ctx;
    char name[HF_FIELD_MAX], kind;
    JSValue record = JS_NewObject(ctx);
    for (int i = 0; (gives = hf_next_field(gives, name, &kind)); i++) {
        JSValue value = kind == ' ' ? JS_NewNumber(ctx, c->out[i]) : new_numbers(c->lists[i].values, c->lists[i].count);
        JS_DefinePropertyValueStr(ctx, record, name, value, JS_PROP_C_W_E);
    }
    return record;
}

static JSValue new_rng(const hf_rng *rng) {
    JSValue object = JS_NewObjectClass(guest.ctx, (int)rng_class);
    hf_rng *state = hf_malloc(sizeof *state);
    *state = *rng;
    JS_SetOpaque(object, state);
    return object;
}

static void free_rng(JSRuntime *rt, JSValueConst object) { hf_free(JS_GetOpaque(object, rng_class)); }

const void *guest_rng_state(JSValueConst object, size_t *size) {
    *size = sizeof(hf_rng);
    return JS_GetOpaque(object, rng_class);
}

static JSValue result_of(const hf_calculation *c, const char *gives, JSValueConst *argv) {
    switch (*gives) {
    case 'n':
        return JS_NewNumber(guest.ctx, c->out[0]);
    case 'i':
    case '@':
        return JS_NewInt64(guest.ctx, c->integer);
    case 'a':
        return new_numbers(c->lists[0].values, c->lists[0].count);
    case '#':
        return new_rows(c);
    case 's':
        return shuffled(argv[1], &c->lists[0]);
    case 'w':
        return new_elements(argv[1], &c->lists[0]);
    case 'r':
        return new_rng(&c->rng);
    default:
        return new_record(c, gives);
    }
}

/* ---- the library -------------------------------------------------------------------------------------------------------------------- */

/* A function's name as JavaScript has it. */
static void put_name(const hf_function *function, char out[HF_NAME_LENGTH]) {
    hf_camel_case((hf_name){function->name, (uint32_t)strlen(function->name)}, out);
}

static JSValue js_call(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int magic) {
    const hf_function *function = &hf_functions[magic];
    hf_calculation c = {.resize = resize, .with = argv, .camel_case = true};
    hf_reading reading = hf_calculate(function, &c, read);
    JSValue result = reading == HF_READ ? result_of(&c, function->gives, argv) : JS_EXCEPTION;
    hf_calculation_end(&c);
    if (reading != HF_WRONG) return result;
    char name[HF_NAME_LENGTH];
    put_name(function, name);
    return JS_ThrowTypeError(ctx, "hf.math.%s: %s", name, c.message);
}

JSValue guest_numbers(void) {
    static const JSClassDef definition = {"Rng", .finalizer = free_rng};
    JSContext *ctx = guest.ctx;
    JS_NewClassID(guest.rt, &rng_class);
    JS_NewClass(guest.rt, rng_class, &definition);
    JSValue prototype = JS_NewObject(ctx), library = JS_NewObject(ctx);
    JS_FreezeObject(ctx, prototype);
    JS_SetClassProto(ctx, rng_class, prototype);
    for (uint32_t i = 0; i < hf_functions_count; i++) {
        char name[HF_NAME_LENGTH];
        put_name(&hf_functions[i], name);
        int length = (int)hf_function_length(&hf_functions[i]);
        JSValue function = JS_NewCFunctionMagic(ctx, js_call, name, length, JS_CFUNC_generic_magic, (int)i);
        JS_FreezeObject(ctx, function);
        JS_DefinePropertyValueStr(ctx, library, name, function, JS_PROP_ENUMERABLE);
    }
    JS_FreezeObject(ctx, library);
    return library;
}

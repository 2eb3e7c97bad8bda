/* Included at the end of quickjs.c: the few places where the guest must reach what is static there. */
#include "abi.h"
#include "internals.h"

bool hf_soft_stack;

/* What was about to be put on the stack is not known here, only that it is too much. */
_Noreturn void hf_stack_breach(JSRuntime *rt) {
    uintptr_t used = rt->stack_top - js_get_stack_pointer();
    hf_breach(HF_STACK, rt->stack_size, used > rt->stack_size ? used : rt->stack_size + 1);
}

_Noreturn void hf_memory_breach(void) {
    uint64_t used = (uint64_t)__builtin_wasm_memory_size(0) * 65536;
    hf_breach(HF_MEMORY, used, UINT32_MAX);
}

/* ---- declarations --------------------------------------------------------------------------------------------------------- */

/* Makes room for a new global declaration of `name`. A lexical one starts again as uninitialised. A var or a function moves the
 * name to globalThis, with the value that it had, because `var x` alone never changes a value. */
int hf_redeclare(JSContext *ctx, JSAtom name, int flags, bool lexical) {
    JSObject *scope = JS_VALUE_GET_OBJ(ctx->global_var_obj), *global = JS_VALUE_GET_OBJ(ctx->global_obj);
    JSProperty *property, *other;
    JSShapeProperty *shape = find_own_property(&property, scope, name);
    if (!shape) return 0;
    if (lexical && (shape->flags & JS_PROP_WRITABLE) == (flags & JS_PROP_WRITABLE)) {
        set_value(ctx, &property->u.value, JS_UNINITIALIZED);
        return 0;
    }
    if (!lexical && !JS_IsUninitialized(property->u.value)) {
        JSValue kept = js_dup(property->u.value);
        shape = find_own_property(&other, global, name);
        if (!shape && global->extensible) {
            other = add_property(ctx, global, name, JS_PROP_ENUMERABLE | JS_PROP_WRITABLE | (flags & JS_PROP_CONFIGURABLE));
            if (!other) return -1;
            other->u.value = kept;
        } else if (shape && (shape->flags & (JS_PROP_TMASK | JS_PROP_WRITABLE)) == JS_PROP_WRITABLE)
            set_value(ctx, &other->u.value, kept);
        else
            JS_FreeValue(ctx, kept);
    }
    return delete_property(ctx, scope, name) < 0 ? -1 : 0;
}

JSValue hf_global(JSContext *ctx, JSAtom name) { return JS_GetGlobalVar(ctx, name, false); }

/* ---- stack traces --------------------------------------------------------------------------------------------------------- */

/* A data property of the object or of its prototypes. Getters and proxies are not asked: they would run code of the script. */
static JSValue inherited_data(JSContext *ctx, JSObject *object, JSAtom name) {
    for (; object && object->class_id != JS_CLASS_PROXY; object = object->shape->proto) {
        JSProperty *property;
        JSShapeProperty *shape = find_own_property(&property, object, name);
        if (!shape) continue;
        if ((shape->flags & JS_PROP_TMASK) != JS_PROP_NORMAL) break;
        return js_dup(property->u.value);
    }
    return JS_UNDEFINED;
}

static size_t put_text(JSContext *ctx, DynBuf *out, JSValue value, const char *before) {
    size_t length = 0;
    if (JS_IsString(value)) {
        const char *text = JS_ToCStringLen(ctx, &length, value);
        if (text && length) {
            dbuf_putstr(out, before);
            dbuf_put(out, text, length);
        }
        JS_FreeCString(ctx, text);
    }
    JS_FreeValue(ctx, value);
    return length;
}

void hf_stack_header(JSContext *ctx, JSValueConst error, DynBuf *out) {
    if (!JS_IsObject(error)) return;
    JSObject *object = JS_VALUE_GET_OBJ(error);
    size_t named = put_text(ctx, out, inherited_data(ctx, object, JS_ATOM_name), "");
    named += put_text(ctx, out, inherited_data(ctx, object, JS_ATOM_message), named ? ": " : "");
    if (named) dbuf_putc(out, '\n');
}

/* The engine keeps the first stack text that an error gets. */
void hf_stack_forget(JSContext *ctx, JSValueConst error) {
    if (!JS_IsObject(error) || JS_VALUE_GET_OBJ(error)->class_id != JS_CLASS_ERROR) return;
    set_value(ctx, &JS_VALUE_GET_OBJ(error)->u.object_data, JS_UNDEFINED);
}

/* ---- promises ------------------------------------------------------------------------------------------------------------- */

JSValue hf_promise(JSContext *ctx) {
    JSValue promise = JS_NewObjectClass(ctx, JS_CLASS_PROMISE);
    if (JS_IsException(promise)) return promise;
    JSPromiseData *data = js_mallocz(ctx, sizeof *data);
    init_list_head(&data->promise_reactions[0]);
    init_list_head(&data->promise_reactions[1]);
    data->promise_state = JS_PROMISE_PENDING;
    data->promise_result = JS_UNDEFINED;
    JS_SetOpaqueInternal(promise, data);
    return promise;
}

void hf_promise_settle(JSContext *ctx, JSValueConst promise, JSValueConst value, bool reject) {
    fulfill_or_reject_promise(ctx, promise, value, reject);
}

/* ---- values --------------------------------------------------------------------------------------------------------------- */

enum hf_class hf_classify(JSContext *ctx, JSValueConst object) {
    JSObject *p = JS_VALUE_GET_OBJ(object);
    switch (p->class_id) {
    case JS_CLASS_OBJECT:
    case JS_CLASS_MODULE_NS:
        return HF_PLAIN;
    case JS_CLASS_ARRAY:
    case JS_CLASS_ARGUMENTS:
    case JS_CLASS_MAPPED_ARGUMENTS:
        return HF_ARRAY;
    case JS_CLASS_ERROR:
    case JS_CLASS_DOM_EXCEPTION:
        return HF_ERROR;
    case JS_CLASS_DATE:
        return HF_DATE;
    case JS_CLASS_NUMBER:
    case JS_CLASS_STRING:
    case JS_CLASS_BOOLEAN:
    case JS_CLASS_BIG_INT:
        return HF_BOXED;
    case JS_CLASS_MAP:
        return HF_MAP;
    case JS_CLASS_SET:
        return HF_SET;
    case JS_CLASS_ARRAY_BUFFER:
    case JS_CLASS_SHARED_ARRAY_BUFFER:
    case JS_CLASS_DATAVIEW:
        return HF_BYTES;
    case JS_CLASS_PROXY:
        return JS_IsFunction(ctx, object) ? HF_CALLABLE : HF_PROXY;
    }
    if (is_typed_array(p->class_id)) return HF_BYTES;
    return JS_IsFunction(ctx, object) ? HF_CALLABLE : HF_OTHER;
}

JSValue hf_own_data(JSContext *ctx, JSValueConst object, JSAtom name) {
    JSObject *p = JS_VALUE_GET_OBJ(object);
    JSProperty *property;
    JSShapeProperty *shape = p->class_id == JS_CLASS_PROXY ? NULL : find_own_property(&property, p, name);
    if (!shape || (shape->flags & JS_PROP_TMASK) != JS_PROP_NORMAL) return JS_UNDEFINED;
    return js_dup(property->u.value);
}

JSValue hf_constructor_name(JSContext *ctx, JSValueConst object) {
    JSValue name = JS_UNDEFINED;
    JSObject *proto = JS_VALUE_GET_OBJ(object)->shape->proto;
    JSValue constructor = inherited_data(ctx, proto, JS_ATOM_constructor);
    if (JS_IsFunction(ctx, constructor)) name = hf_own_data(ctx, constructor, JS_ATOM_name);
    JS_FreeValue(ctx, constructor);
    if (JS_IsString(name)) return name;
    JS_FreeValue(ctx, name);
    return JS_UNDEFINED;
}

JSValue hf_unbox(JSContext *ctx, JSValueConst object) { return js_dup(JS_VALUE_GET_OBJ(object)->u.object_data); }

const uint8_t *hf_bytes(JSValueConst object, size_t *length) {
    JSObject *p = JS_VALUE_GET_OBJ(object);
    *length = 0;
    if (p->class_id == JS_CLASS_ARRAY_BUFFER || p->class_id == JS_CLASS_SHARED_ARRAY_BUFFER) {
        *length = (size_t)p->u.array_buffer->byte_length;
        return p->u.array_buffer->data;
    }
    JSTypedArray *view = p->u.typed_array;
    JSArrayBuffer *buffer = view->buffer->u.array_buffer;
    size_t whole = buffer->detached ? 0 : (size_t)buffer->byte_length;
    if (view->offset > whole) return NULL;
    size_t most = whole - view->offset;
    *length = view->track_rab || view->length > most ? most : view->length;
    return buffer->data + view->offset;
}

JSValue *hf_entries(JSContext *ctx, JSValueConst collection, uint32_t *count) {
    JSMapState *map = JS_VALUE_GET_OBJ(collection)->u.map_state;
    JSValue *entries = hf_malloc(map->record_count * 2 * sizeof *entries);
    struct list_head *at;
    *count = 0;
    list_for_each(at, &map->records) {
        JSMapRecord *record = list_entry(at, JSMapRecord, link);
        if (record->empty) continue;
        entries[(*count)++] = js_dup(record->key);
        entries[(*count)++] = js_dup(record->value);
    }
    return entries;
}

void hf_entries_free(JSContext *ctx, JSValue *entries, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) JS_FreeValue(ctx, entries[i]);
    hf_free(entries);
}

/* ---- the runtime ---------------------------------------------------------------------------------------------------------- */

void *hf_modules_last(JSContext *ctx) { return ctx->loaded_modules.prev; }

void hf_modules_forget(JSContext *ctx, void *before) {
    struct list_head *at = ((struct list_head *)before)->next, *next;
    for (; at != &ctx->loaded_modules; at = next) {
        next = at->next;
        JSModuleDef *module = list_entry(at, JSModuleDef, link);
        if (module->status == JS_MODULE_STATUS_UNLINKED) js_free_module_def(ctx, module);
    }
}

void hf_random_seed(JSContext *ctx, uint64_t seed) {
    uint64_t state = seed + 0x9E3779B97F4A7C15u; /* neighbouring seeds must not give neighbouring numbers */
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9u;
    state = (state ^ state >> 27) * 0x94D049BB133111EBu;
    state ^= state >> 31;
    ctx->random_state = state ? state : 1;
}

/* Takes all arenas that have room out of use: see hf_heap_seal. A block of theirs that is freed stays free until all are. */
void hf_arenas_seal(JSRuntime *rt) {
    for (int size = 0; size < JS_ARENA_BLOCK_SIZE_COUNT; size++) {
        struct list_head *at, *next;
        list_for_each_safe(at, next, &rt->arena_state.free_arena_list[size]) {
            list_del(at);
            init_list_head(at);
        }
    }
}

size_t hf_memory_in_use(JSRuntime *rt) { return rt->malloc_state.malloc_size; }

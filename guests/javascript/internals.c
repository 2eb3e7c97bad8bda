/* Included at the end of quickjs.c: the few places where the guest must reach what is static there. */
#include "digest.h"
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

/* ---- abandoning ----------------------------------------------------------------------------------------------------------- */

uint32_t hf_owner;

static void take_jobs(JSRuntime *rt, uint32_t owner, struct list_head *taken) {
    struct list_head *at, *next;
    list_for_each_safe(at, next, &rt->job_list) {
        JSJobEntry *job = list_entry(at, JSJobEntry, link);
        if (job->hf_owner != owner) continue;
        list_del(&job->link);
        list_add_tail(&job->link, taken);
    }
}

/* Whatever waits does so in a list of a promise, and all promises are in the collector's list. */
static void take_reactions(JSRuntime *rt, uint32_t owner, struct list_head *taken) {
    struct list_head *object, *at, *next;
    list_for_each(object, &rt->gc_obj_list) {
        JSGCObjectHeader *header = list_entry(object, JSGCObjectHeader, link);
        if (JS_GC_TYPE(header) != JS_GC_OBJ_TYPE_JS_OBJECT || ((JSObject *)header)->class_id != JS_CLASS_PROMISE) continue;
        JSPromiseData *promise = ((JSObject *)header)->u.promise_data;
        for (int i = 0; promise && i < 2; i++) {
            list_for_each_safe(at, next, &promise->promise_reactions[i]) {
                JSPromiseReactionData *reaction = list_entry(at, JSPromiseReactionData, link);
                if (reaction->hf_owner != owner) continue;
                list_del(&reaction->link);
                list_add_tail(&reaction->link, taken);
            }
        }
    }
}

static bool was_evaluating(const JSModuleDef *module, uint32_t owner) {
    return module->status == JS_MODULE_STATUS_EVALUATING_ASYNC && module->hf_owner == owner;
}

/* A module that will never be evaluated must not be found: the next import of it begins again. Others may point at it, so it stays
 * in the list, without its name and its code. One that was evaluated before goes on, but not with those that waited for it. */
static void forget_modules(JSContext *ctx, uint32_t owner) {
    struct list_head *at;
    list_for_each(at, &ctx->loaded_modules) {
        JSModuleDef *module = list_entry(at, JSModuleDef, link);
        int kept = 0;
        for (int i = 0; i < module->async_parent_modules_count; i++)
            if (!was_evaluating(module->async_parent_modules[i], owner))
                module->async_parent_modules[kept++] = module->async_parent_modules[i];
        module->async_parent_modules_count = kept;
    }
    list_for_each(at, &ctx->loaded_modules) {
        JSModuleDef *module = list_entry(at, JSModuleDef, link);
        if (!was_evaluating(module, owner)) continue;
        JSValue symbol = JS_NewSymbolFromAtom(ctx, JS_ATOM_empty_string, JS_ATOM_TYPE_SYMBOL);
        JSAtom name = module->module_name;
        module->module_name = js_symbol_to_atom(ctx, symbol);
        module->hf_owner = 0;
        JS_FreeAtom(ctx, name);
        set_value(ctx, &module->promise, JS_UNDEFINED);
        set_value(ctx, &module->resolving_funcs[0], JS_UNDEFINED);
        set_value(ctx, &module->resolving_funcs[1], JS_UNDEFINED);
        set_value(ctx, &module->func_obj, JS_UNDEFINED);
    }
}

void hf_abandon(JSContext *ctx, uint32_t owner) {
    JSRuntime *rt = ctx->rt;
    struct list_head jobs, reactions, *at, *next;
    init_list_head(&jobs);
    init_list_head(&reactions);
    take_jobs(rt, owner, &jobs);
    take_reactions(rt, owner, &reactions); /* all of them before one is freed: that changes the lists */
    hf_owner = 0; /* of jobs that freeing may add: for a FinalizationRegistry */
    list_for_each_safe(at, next, &jobs) {
        JSJobEntry *job = list_entry(at, JSJobEntry, link);
        for (int i = 0; i < job->argc; i++) JS_FreeValue(ctx, job->argv[i]);
        js_free(ctx, job);
    }
    list_for_each_safe(at, next, &reactions) promise_reaction_data_free(rt, list_entry(at, JSPromiseReactionData, link));
    forget_modules(ctx, owner);
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

/* ---- values, borrowed --------------------------------------------------------------------------------------------------------- */

uint32_t hf_slots(JSValueConst object) { return (uint32_t)JS_VALUE_GET_OBJ(object)->shape->prop_count; }

static JSValueConst function_or_undefined(JSObject *function) {
    return function ? JS_MKPTR(JS_TAG_OBJECT, function) : JS_UNDEFINED;
}

bool hf_slot_at(JSValueConst object, uint32_t index, hf_slot *slot) {
    JSObject *p = JS_VALUE_GET_OBJ(object);
    JSShapeProperty *shape = &get_shape_prop(p->shape)[index];
    JSProperty *property = &p->prop[index];
    if (shape->atom == JS_ATOM_NULL) return false;
    *slot = (hf_slot){HF_DATA, shape->atom, shape->flags & JS_PROP_C_W_E, JS_UNDEFINED, JS_UNDEFINED};
    switch (shape->flags & JS_PROP_TMASK) {
    case JS_PROP_NORMAL:
        slot->value = property->u.value;
        break;
    case JS_PROP_VARREF:
        slot->value = *property->u.var_ref->pvalue;
        break;
    case JS_PROP_GETSET:
        slot->kind = HF_ACCESSOR;
        slot->value = function_or_undefined(property->u.getset.getter);
        slot->setter = function_or_undefined(property->u.getset.setter);
        break;
    default:
        slot->kind = HF_LAZY;
    }
    return true;
}

bool hf_has(JSValueConst object, JSAtom name) { return find_own_property1(JS_VALUE_GET_OBJ(object), name) != NULL; }

JSValueConst hf_lexicals(JSContext *ctx) { return ctx->global_var_obj; }

bool hf_is_text(JSContext *ctx, JSAtom name, size_t most) {
    if (__JS_AtomIsTaggedInt(name)) return true;
    return JS_AtomGetKind(ctx, name) == JS_ATOM_KIND_STRING && ctx->rt->atom_array[name]->len <= most;
}

bool hf_is_private(JSContext *ctx, JSAtom name) { return JS_AtomGetKind(ctx, name) == JS_ATOM_KIND_PRIVATE; }

const JSValue *hf_elements(JSValueConst array, uint32_t *count) {
    JSObject *p = JS_VALUE_GET_OBJ(array);
    bool dense = p->fast_array && (p->class_id == JS_CLASS_ARRAY || p->class_id == JS_CLASS_ARGUMENTS);
    *count = dense ? p->u.array.count : 0;
    return p->u.array.u.values;
}

void *hf_next_entry(JSValueConst collection, void *after, JSValueConst *key, JSValueConst *value) {
    JSMapState *map = JS_VALUE_GET_OBJ(collection)->u.map_state;
    struct list_head *at = after ? after : &map->records;
    while ((at = at->next) != &map->records) {
        JSMapRecord *record = list_entry(at, JSMapRecord, link);
        if (record->empty) continue;
        *key = record->key;
        *value = record->value;
        return at;
    }
    return NULL;
}

uint32_t hf_size(JSValueConst collection) { return JS_VALUE_GET_OBJ(collection)->u.map_state->record_count; }

JSValueConst hf_held(JSValueConst object) { return JS_VALUE_GET_OBJ(object)->u.object_data; }

JSValueConst hf_handler(JSValueConst proxy, JSValueConst *target) {
    JSProxyData *data = JS_VALUE_GET_OBJ(proxy)->u.proxy_data;
    *target = data->target;
    return data->handler;
}

JSValueConst hf_settled(JSValueConst promise, JSPromiseStateEnum *state) {
    JSPromiseData *data = JS_VALUE_GET_OBJ(promise)->u.promise_data;
    *state = data ? data->promise_state : JS_PROMISE_PENDING;
    return data ? data->promise_result : JS_UNDEFINED;
}

bool hf_is_view(JSValueConst object, uint32_t *count) {
    JSObject *p = JS_VALUE_GET_OBJ(object);
    bool is_view = is_typed_array(p->class_id);
    *count = is_view ? p->u.array.count : 0;
    return is_view;
}

bool hf_is_long(JSValueConst bigint) {
    enum { LIMBS = 1000 };
    return JS_VALUE_GET_TAG(bigint) == JS_TAG_BIG_INT && ((JSBigInt *)JS_VALUE_GET_PTR(bigint))->len > LIMBS;
}

int hf_class_id(JSValueConst object) { return JS_VALUE_GET_OBJ(object)->class_id; }

bool hf_is_bare(JSValueConst object) { return !JS_VALUE_GET_OBJ(object)->shape->proto; }

bool hf_is_extensible(JSValueConst object) { return JS_VALUE_GET_OBJ(object)->extensible; }

const char *hf_source(JSValueConst function, size_t *length) {
    JSObject *p = JS_VALUE_GET_OBJ(function);
    *length = 0;
    if (!js_class_has_bytecode(p->class_id)) return NULL;
    JSFunctionBytecode *code = p->u.func.function_bytecode;
    if (code->source) *length = (size_t)code->source_len;
    return code->source;
}

const char *hf_pattern(JSValueConst object, JSValueConst *pattern) {
    static char flags[10];
    static const char letters[] = "gimsuyd";
    JSObject *p = JS_VALUE_GET_OBJ(object);
    if (p->class_id != JS_CLASS_REGEXP || !p->u.regexp.pattern) return NULL;
    int set = lre_get_flags(str8(p->u.regexp.bytecode)), length = 0;
    for (int i = 0; letters[i]; i++)
        if (set >> i & 1) flags[length++] = letters[i];
    if (set & LRE_FLAG_UNICODE_SETS) flags[length++] = 'v';
    flags[length] = 0;
    *pattern = JS_MKPTR(JS_TAG_STRING, p->u.regexp.pattern);
    return flags;
}

JSValue hf_date_text(JSContext *ctx, JSValueConst date) {
    double time = NAN;
    JS_ToFloat64(ctx, &time, hf_held(date));
    if (isnan(time)) return JS_NewString(ctx, "Invalid Date"); /* an error would be seen by Error.prepareStackTrace */
    return get_date_string(ctx, date, 0, NULL, 0x23); /* toISOString */
}

JSValue hf_inherited(JSContext *ctx, JSValueConst object, JSAtom name) {
    return inherited_data(ctx, JS_VALUE_GET_OBJ(object), name);
}

size_t hf_units(JSValueConst string, uint16_t *units, size_t most) {
    JSStringRopeIter pieces;
    JSString *piece;
    size_t count = 0;
    string_rope_iter_init(&pieces, string);
    while (count < most && (piece = string_rope_iter_next(&pieces)))
        for (uint32_t i = 0; i < piece->len && count < most; i++) units[count++] = (uint16_t)string_get(piece, (int)i);
    return count;
}

/* ---- digests -------------------------------------------------------------------------------------------------------------- */

typedef struct {
    hf_digest *digest;
    uint64_t word;
    size_t left;
    uint32_t filled;
} unit_hash;

/* Four units are a word, whether they are kept in 8 or in 16 bits, and however a rope is cut. */
static void hash_piece(unit_hash *h, JSString *piece) {
    uint32_t length = piece->len < h->left ? piece->len : (uint32_t)h->left;
    const uint8_t *narrow = piece->is_wide_char ? NULL : str8(piece);
    const uint16_t *wide = piece->is_wide_char ? str16(piece) : NULL;
    for (uint32_t i = 0; i < length; i++) {
        h->word |= (uint64_t)(wide ? wide[i] : narrow[i]) << 16 * h->filled;
        if (++h->filled < 4) continue;
        h->digest->hash = hf_digest_mix(h->digest->hash, h->word);
        h->word = h->filled = 0;
    }
    h->left -= length;
}

void hf_digest_string(hf_digest *digest, JSValueConst string) {
    JSStringRopeIter pieces;
    JSString *piece;
    if (JS_IsSymbol(string)) string = JS_MKPTR(JS_TAG_STRING, JS_VALUE_GET_PTR(string)); /* its description */
    bool is_rope = JS_VALUE_GET_TAG(string) == JS_TAG_STRING_ROPE;
    size_t length = is_rope ? JS_VALUE_GET_STRING_ROPE(string)->len : JS_VALUE_GET_STRING(string)->len;
    hf_digest_word(digest, length);
    unit_hash h = {digest, 0, hf_digest_room(digest, length), 0};
    string_rope_iter_init(&pieces, string);
    while (h.left && (piece = string_rope_iter_next(&pieces))) hash_piece(&h, piece);
    digest->hash = hf_digest_mix(digest->hash, h.word);
}

void hf_digest_atom(JSContext *ctx, hf_digest *digest, JSAtom atom) {
    if (__JS_AtomIsTaggedInt(atom)) {
        hf_digest_word(digest, atom);
        return;
    }
    JSAtomStruct *text = ctx->rt->atom_array[atom];
    hf_digest_word(digest, (uint64_t)JS_AtomGetKind(ctx, atom) << 32);
    hf_digest_string(digest, JS_MKPTR(JS_TAG_STRING, text));
}

void hf_digest_bigint(hf_digest *digest, JSValueConst bigint) {
    if (JS_VALUE_GET_TAG(bigint) == JS_TAG_SHORT_BIG_INT) {
        js_limb_t only = (js_limb_t)JS_VALUE_GET_SHORT_BIG_INT(bigint);
        hf_digest_bytes(digest, &only, sizeof only);
    } else {
        JSBigInt *number = JS_VALUE_GET_PTR(bigint);
        hf_digest_bytes(digest, number->tab, number->len * sizeof *number->tab);
    }
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

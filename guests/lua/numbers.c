/* alc.math: what numbers.h describes, for Lua. Tables are read and written as they are, without metamethods. */
#include "guest.h"
#include "numbers.h"

static const char rng_type[] = "alc.math.rng";

/* ---- arguments ---------------------------------------------------------------------------------------------------------------------- */

/* Memory that is not Lua's, but may be had by a collection of Lua's garbage. */
static void *resize(void *with, void *block, size_t size) { return hf_lua_resize_box(with, block, size); }

static hf_reading read_list(hf_calculation *c, int index, bool nested, hf_list *list) {
    lua_State *L = c->with;
    if (!lua_istable(L, index)) return HF_WRONG;
    lua_Unsigned count = lua_rawlen(L, index);
    for (lua_Unsigned i = 1; i <= count; i++) {
        int type = lua_rawgeti(L, index, (lua_Integer)i);
        hf_reading reading = HF_READ;
        if (type == LUA_TNUMBER)
            hf_list_add(c, list, lua_tonumber(L, -1));
        else if (nested && type == LUA_TTABLE) {
            hf_list inner = {0};
            reading = read_list(c, lua_gettop(L), false, &inner);
            hf_list_add(c, list, hf_first_relevant(&inner));
            hf_free(inner.values);
        } else
            reading = HF_WRONG;
        lua_pop(L, 1);
        if (reading != HF_READ) return reading;
    }
    return HF_READ;
}

static hf_reading read_option(lua_State *L, int index, hf_name name, hf_argument *argument) {
    if (!lua_istable(L, index)) return HF_WRONG;
    lua_pushlstring(L, name.data, name.length);
    int type = lua_rawget(L, index);
    argument->integer = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return type == LUA_TBOOLEAN ? HF_READ : type == LUA_TNIL ? HF_ABSENT : HF_WRONG;
}

static hf_reading read(hf_calculation *c, uint32_t at, char way, hf_name name, hf_argument *argument) {
    lua_State *L = c->with;
    int index = (int)at + 1, is_integer;
    if (lua_isnoneornil(L, index)) return HF_ABSENT;
    switch (way) {
        case 'n':
            argument->number = lua_tonumber(L, index);
            return lua_type(L, index) == LUA_TNUMBER ? HF_READ : HF_WRONG;
        case 'i':
            argument->integer = lua_tointegerx(L, index, &is_integer);
            return lua_type(L, index) == LUA_TNUMBER && is_integer ? HF_READ : HF_WRONG;
        case 'r':
            argument->rng = luaL_testudata(L, index, rng_type);
            return argument->rng ? HF_READ : HF_WRONG;
        case 't':
            argument->count = (uint32_t)lua_rawlen(L, index);
            return lua_istable(L, index) && lua_rawlen(L, index) == argument->count ? HF_READ : HF_WRONG;
        case 'b': return read_option(L, index, name, argument);
        default: return read_list(c, index, way == 'm', &argument->list);
    }
}

/* ---- results ------------------------------------------------------------------------------------------------------------------------ */

static void new_array(lua_State *L, uint32_t count) {
    lua_createtable(L, (int)count, 0);
    if (!count) hf_lua_mark_array(L, -1);
}

static void push_numbers(lua_State *L, const hf_list *list) {
    new_array(L, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        lua_pushnumber(L, list->values[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_integers(lua_State *L, const double *values, uint32_t count, int more) {
    new_array(L, count);
    for (uint32_t i = 0; i < count; i++) {
        lua_pushinteger(L, (lua_Integer)values[i] + more);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_rows(lua_State *L, const hf_calculation *c) {
    new_array(L, (uint32_t)c->integer);
    for (uint32_t row = 0; row < c->integer; row++) {
        push_integers(L, c->lists[0].values + row * c->width, c->width, 1);
        lua_rawseti(L, -2, (lua_Integer)row + 1);
    }
}

/* A new table of elements of the one at index 2. */
static void push_elements(lua_State *L, const hf_list *indexes) {
    new_array(L, indexes->count);
    for (uint32_t i = 0; i < indexes->count; i++) {
        lua_rawgeti(L, 2, (lua_Integer)indexes->values[i] + 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_shuffled(lua_State *L, const hf_list *order) {
    push_elements(L, order);
    for (uint32_t i = 1; i <= order->count; i++) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, 2, i);
    }
    lua_pushvalue(L, 2);
}

static void push_record(lua_State *L, const hf_calculation *c, const char *gives) {
    char name[HF_FIELD_MAX], kind;
    lua_createtable(L, 0, 3);
    for (int i = 0; (gives = hf_next_field(gives, name, &kind)); i++) {
        if (kind == '+')
            push_integers(L, c->lists[i].values, c->lists[i].count, 0);
        else if (kind == '*')
            push_numbers(L, &c->lists[i]);
        else
            lua_pushnumber(L, c->out[i]);
        lua_setfield(L, -2, name);
    }
}

static void push_rng(lua_State *L, const hf_rng *rng) {
    *(hf_rng *)lua_newuserdatauv(L, sizeof *rng, 0) = *rng;
    luaL_setmetatable(L, rng_type);
}

static void push_result(lua_State *L, const hf_calculation *c, const char *gives) {
    switch (*gives) {
        case 'n': lua_pushnumber(L, c->out[0]); break;
        case 'i': lua_pushinteger(L, c->integer); break;
        case '@': lua_pushinteger(L, c->integer + 1); break;
        case 'a': push_numbers(L, &c->lists[0]); break;
        case '#': push_rows(L, c); break;
        case 's': push_shuffled(L, &c->lists[0]); break;
        case 'w': push_elements(L, &c->lists[0]); break;
        case 'r': push_rng(L, &c->rng); break;
        default: push_record(L, c, gives);
    }
}

/* ---- the library -------------------------------------------------------------------------------------------------------------------- */

static int call(lua_State *L) {
    const hf_function *function = lua_touserdata(L, lua_upvalueindex(1));
    hf_calculation c = {.resize = resize, .with = L};
    hf_reading reading = hf_calculate(function, &c, read);
    if (reading == HF_READ) push_result(L, &c, function->gives);
    hf_calculation_end(&c);
    return reading == HF_READ ? 1 : luaL_error(L, "alc.math.%s: %s", function->name, c.message);
}

void hf_lua_open_numbers(lua_State *L) {
    luaL_newmetatable(L, rng_type);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable"); /* it is no business of scripts */
    lua_pop(L, 1);
    lua_createtable(L, 0, (int)hf_functions_count);
    for (uint32_t i = 0; i < hf_functions_count; i++) {
        lua_pushlightuserdata(L, (void *)&hf_functions[i]);
        lua_pushcclosure(L, call, 1);
        lua_setfield(L, -2, hf_functions[i].name);
    }
}

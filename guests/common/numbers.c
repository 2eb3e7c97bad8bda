/* How a function of alc.math is called: its arguments are read, checked, and given to what computes it. */
#include <math.h>
#include <string.h>

#include "abi.h"
#include "numbers.h"

#define ENTRY(name, takes, gives) {#name, takes, gives, hf_math_##name},
const hf_function hf_functions[] = {HF_MATH(ENTRY)};
const uint32_t hf_functions_count = sizeof hf_functions / sizeof *hf_functions;

/* ---- memory ----------------------------------------------------------------------------------------------------------------------- */

struct room {
    struct room *next;
    double numbers[];
};

double *hf_room(hf_calculation *c, uint64_t count) {
    uint64_t size = sizeof(struct room) + count * sizeof(double);
    struct room *room = c->resize(c->with, NULL, size > SIZE_MAX ? SIZE_MAX : (size_t)size);
    room->next = c->rooms;
    c->rooms = room;
    return room->numbers;
}

hf_list hf_new_list(hf_calculation *c, uint64_t count) { return (hf_list){hf_room(c, count), (uint32_t)count}; }

/* A script may say that an array is longer than it is, so no more is allocated than what was read. */
void hf_list_add(hf_calculation *c, hf_list *list, double value) {
    enum { FEWEST = 8 };
    uint32_t count = list->count;
    if (!count || (count >= FEWEST && !(count & (count - 1)))) /* full: its room is a power of two */
        list->values = c->resize(c->with, list->values, (count ? 2 * (size_t)count : FEWEST) * sizeof(double));
    list->values[list->count++] = value;
}

void hf_calculation_end(hf_calculation *c) {
    for (struct room *room = c->rooms, *next; room; room = next) {
        next = room->next;
        hf_free(room);
    }
    for (int i = 0; i < HF_ARGUMENTS; i++) hf_free(c->in[i].list.values);
}

/* ---- kinds of arguments ------------------------------------------------------------------------------------------------------------- */

static bool any(const hf_argument *a) { return (void)a, true; }
static bool is_finite(const hf_argument *a) { return isfinite(a->number); }
static bool is_positive(const hf_argument *a) { return a->number > 0 && isfinite(a->number); }
static bool is_not_negative(const hf_argument *a) { return a->number >= 0 && isfinite(a->number); }
static bool is_share(const hf_argument *a) { return a->number >= 0 && a->number <= 1; }
static bool is_weight(const hf_argument *a) { return a->number > 0 && a->number <= 1; }
static bool is_percent(const hf_argument *a) { return a->number >= 0 && a->number <= 100; }
static bool is_count(const hf_argument *a) { return a->integer >= 0; }
static bool is_positive_count(const hf_argument *a) { return a->integer > 0; }
static bool has_numbers(const hf_argument *a) { return a->list.count > 0; }

static bool are_weights(const hf_argument *a) {
    double largest = 0;
    for (uint32_t i = 0; i < a->list.count; i++) {
        if (a->list.values[i] < 0) return false;
        if (a->list.values[i] > largest) largest = a->list.values[i];
    }
    return largest > 0;
}

static bool are_shapes(const hf_argument *a) {
    for (uint32_t i = 0; i < a->list.count; i++)
        if (a->list.values[i] <= 0) return false;
    return a->list.count > 1;
}

static bool are_probabilities(const hf_argument *a) {
    const double tolerance = 1e-6;
    double sum = 0;
    for (uint32_t i = 0; i < a->list.count; i++) {
        if (a->list.values[i] < 0) return false;
        sum += a->list.values[i];
    }
    return fabs(sum - 1) <= tolerance;
}

static bool are_ranks(const hf_argument *a) {
    for (uint32_t i = 0; i < a->list.count; i++)
        if (a->list.values[i] < 0 || a->list.values[i] != floor(a->list.values[i])) return false;
    return a->list.count > 0;
}

static const struct kind {
    char letter, way; /* how it is read: see hf_reading */
    bool (*fits)(const hf_argument *argument);
    const char *expected;
} kinds[] = {
    {'x', 'n', any, "a number"},
    {'f', 'n', is_finite, "a finite number"},
    {'+', 'n', is_positive, "a finite number above 0"},
    {'0', 'n', is_not_negative, "a finite number of at least 0"},
    {'p', 'n', is_share, "a number from 0 to 1"},
    {'q', 'n', is_weight, "a number above 0 and at most 1"},
    {'%', 'n', is_percent, "a number from 0 to 100"},
    {'i', 'i', any, "an integer"},
    {'u', 'i', is_count, "an integer of at least 0"},
    {'k', 'i', is_positive_count, "an integer above 0"},
    {'a', 'a', has_numbers, "a non-empty array of finite numbers"},
    {'w', 'a', are_weights, "an array of finite numbers of at least 0, one of them above 0"},
    {'s', 'a', are_shapes, "an array of two or more finite numbers above 0"},
    {'d', 'a', are_probabilities, "an array of probabilities that add up to 1"},
    {'m', 'm', are_ranks, "a non-empty array of ranks, or of arrays of relevances"},
    {'t', 't', any, "an array"},
    {'r', 'r', any, "a generator of random numbers"},
    {'b', 'b', any, "true or false"},
};

static const struct kind *kind_of(char letter) {
    const struct kind *kind = kinds;
    while (kind->letter != letter) kind++;
    return kind;
}

/* ---- calls -------------------------------------------------------------------------------------------------------------------------- */

/* The next argument that a function takes. */
static const char *next_argument(const char *takes, const struct kind **kind, hf_name *name, bool *optional) {
    if (!*takes) return NULL;
    *kind = kind_of(*takes);
    name->data = takes + 2;
    name->length = (uint32_t)strcspn(name->data, " ?");
    takes = name->data + name->length;
    *optional = *takes == '?';
    takes += *optional;
    return takes + (*takes == ' ');
}

static bool has_only_finite(const hf_list *list) {
    for (uint32_t i = 0; i < list->count; i++)
        if (!isfinite(list->values[i])) return false;
    return true;
}

void hf_camel_case(hf_name name, char out[HF_NAME_LENGTH]) {
    for (uint32_t i = 0; i < name.length; i++) *out++ = name.data[i] != '_' ? name.data[i] : (char)(name.data[++i] - 'a' + 'A');
    *out = 0;
}

static hf_reading wrong(hf_calculation *c, hf_name name, const char *expected) {
    if (c->camel_case)
        hf_camel_case(name, c->message);
    else
        strncat(c->message, name.data, name.length);
    strcat(c->message, name.length ? " must be " : "");
    strcat(c->message, expected);
    return HF_WRONG;
}

static hf_reading read_all(const hf_function *function, hf_calculation *c, hf_reader *read) {
    const struct kind *kind;
    hf_name name;
    bool optional;
    const char *takes = function->takes;
    for (uint32_t i = 0, at = 0; (takes = next_argument(takes, &kind, &name, &optional)); i++) {
        hf_argument *argument = &c->in[i];
        hf_reading reading = read(c, at, kind->way, name, argument);
        if (kind->way != 'b') at++; /* all options are in one table */
        if (reading == HF_THROWN) return reading;
        if (reading == HF_ABSENT && optional) continue;
        if (reading != HF_READ || !has_only_finite(&argument->list) || !kind->fits(argument)) return wrong(c, name, kind->expected);
        argument->given = true;
    }
    return HF_READ;
}

hf_reading hf_calculate(const hf_function *function, hf_calculation *c, hf_reader *read) {
    hf_reading reading = read_all(function, c, read);
    if (reading != HF_READ) return reading;
    const char *problem = function->compute(c);
    return problem ? wrong(c, (hf_name){"", 0}, problem) : HF_READ;
}

uint32_t hf_function_length(const hf_function *function) {
    const struct kind *kind;
    hf_name name;
    bool optional, options = false;
    uint32_t count = 0;
    for (const char *takes = function->takes; (takes = next_argument(takes, &kind, &name, &optional));) {
        if (kind->way == 'b')
            options = true;
        else
            count++;
    }
    return count + options;
}

const char *hf_next_field(const char *gives, char name[HF_FIELD_MAX], char *kind) {
    if (*gives == '{' || *gives == ' ') gives++;
    if (*gives == '}') return NULL;
    *kind = *gives == '+' || *gives == '*' ? *gives++ : ' ';
    size_t length = strcspn(gives, " }");
    memcpy(name, gives, length);
    name[length] = 0;
    return gives + length;
}

double hf_first_relevant(const hf_list *list) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->values[i] > 0) return i + 1;
    return 0;
}

/* Information, series, and combinations: what goes through arrays from one end to the other. */
#include <math.h>

#include "numbers.h"

/* ---- information -------------------------------------------------------------------------------------------------------------------- */

static double cross_entropy(const hf_list *p, const hf_list *q) {
    double sum = 0;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->values[i] > 0) sum -= p->values[i] * log(q->values[i]);
    return sum;
}

static double divergence(const hf_list *p, const hf_list *q) {
    double sum = 0;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->values[i] > 0) sum += p->values[i] * (log(p->values[i]) - log(q->values[i]));
    return fmax(0, sum);
}


const char *hf_math_entropy(hf_calculation *c) {
    c->out[0] = fmax(0, cross_entropy(&c->in[0].list, &c->in[0].list));
    return NULL;
}

static const char different[] = "p and q must have the same length";

const char *hf_math_cross_entropy(hf_calculation *c) {
    const hf_list *p = &c->in[0].list, *q = &c->in[1].list;
    if (p->count != q->count) return different;
    c->out[0] = cross_entropy(p, q);
    return NULL;
}

const char *hf_math_kl_divergence(hf_calculation *c) {
    const hf_list *p = &c->in[0].list, *q = &c->in[1].list;
    if (p->count != q->count) return different;
    c->out[0] = divergence(p, q);
    return NULL;
}

const char *hf_math_js_divergence(hf_calculation *c) {
    const hf_list *p = &c->in[0].list, *q = &c->in[1].list;
    if (p->count != q->count) return different;
    hf_list middle = hf_new_list(c, p->count);
    for (uint32_t i = 0; i < p->count; i++) middle.values[i] = p->values[i] / 2 + q->values[i] / 2;
    c->out[0] = fmin(M_LN2, divergence(p, &middle) / 2 + divergence(q, &middle) / 2);
    return NULL;
}

/* ---- series ------------------------------------------------------------------------------------------------------------------------- */

/* Each window is the end of one block of its size and the beginning of the next: sums of both are kept, and nothing is ever
 * subtracted, so that a large value is forgotten when it has left the window. */
const char *hf_math_moving_average(hf_calculation *c) {
    const hf_list *values = &c->in[0].list;
    uint32_t count = values->count;
    if (c->in[1].integer > count) return "window must not be larger than the number of values";
    uint32_t window = (uint32_t)c->in[1].integer;
    double *ends = hf_room(c, (uint64_t)count + 1), beginning = 0;
    for (uint32_t i = count; i--;) ends[i] = values->values[i] + ((i + 1) % window ? ends[i + 1] : 0);
    hf_list means = c->lists[0] = hf_new_list(c, count - window + 1);
    for (uint32_t i = 0; i < means.count; i++) {
        beginning = i % window ? beginning + values->values[i + window - 1] : 0;
        means.values[i] = (ends[i] + beginning) / window;
    }
    return NULL;
}

const char *hf_math_ewma(hf_calculation *c) {
    const hf_list *values = &c->in[0].list;
    hf_list means = c->lists[0] = hf_new_list(c, values->count);
    double alpha = c->in[1].number, mean = means.values[0] = values->values[0];
    for (uint32_t i = 1; i < means.count; i++) means.values[i] = mean = alpha * values->values[i] + (1 - alpha) * mean;
    return NULL;
}

const char *hf_math_autocorrelation(hf_calculation *c) {
    const hf_list *values = &c->in[0].list;
    int64_t lag = c->in[1].integer;
    double mean = hf_mean(values), sum = 0, all = 0;
    if (lag >= values->count) return "lag must be less than the number of values";
    if (hf_is_constant(values)) return "of a constant array there is no correlation";
    for (uint32_t i = 0; i < values->count; i++) {
        double off = values->values[i] - mean;
        all += off * off;
        if (i >= lag) sum += off * (values->values[i - lag] - mean);
    }
    c->out[0] = sum / all;
    return NULL;
}

/* ---- combinations ------------------------------------------------------------------------------------------------------------------- */

static void swap(double *one, double *other) {
    double moved = *one;
    *one = *other;
    *other = moved;
}

static void reverse(double *from, double *to) {
    while (from < to) swap(from++, to--);
}

/* The next order of the first k of n numbers: what comes after them is taken in the order that makes the next one of all n. */
static void advance(double *numbers, int64_t n, int64_t k) {
    int64_t i = n - 2, j = n - 1;
    reverse(numbers + k, numbers + n - 1);
    while (i >= 0 && numbers[i] >= numbers[i + 1]) i--;
    if (i < 0) return;
    while (numbers[j] <= numbers[i]) j--;
    swap(numbers + i, numbers + j);
    reverse(numbers + i + 1, numbers + n - 1);
}

const char *hf_math_permutations(hf_calculation *c) {
    enum { MOST = 40320 };
    int64_t n = c->in[0].integer, k = c->in[1].given ? c->in[1].integer : n, count = 1;
    if (k > n) return "k must not be larger than n";
    if (!k) n = 0; /* there is one, of nothing */
    for (int64_t i = 0; i < k; i++) {
        count = n > MOST ? n : count * (n - i);
        if (count > MOST) return "there are more than 40320 permutations";
    }
    double *numbers = hf_room(c, (uint64_t)n);
    hf_list rows = c->lists[0] = hf_new_list(c, (uint64_t)(count * k));
    c->width = (uint32_t)k;
    c->integer = count;
    for (int64_t i = 0; i < n; i++) numbers[i] = (double)i;
    for (int64_t row = 0; row < count; row++) {
        for (int64_t i = 0; i < k; i++) rows.values[row * k + i] = numbers[i];
        advance(numbers, n, k);
    }
    return NULL;
}

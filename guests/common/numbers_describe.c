/* What an array of numbers is like: its center, its spread, its shape. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

/* ---- sums --------------------------------------------------------------------------------------------------------------------------- */

/* The sum of the values times `factor`; what rounding loses is added at the end. */
static double sum_of(const hf_list *list, double factor) {
    double sum = 0, lost = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        double value = list->values[i] * factor, next = sum + value;
        lost += fabs(sum) >= fabs(value) ? sum - next + value : value - next + sum;
        sum = next;
    }
    return sum + lost;
}

double hf_mean(const hf_list *list) {
    double sum = sum_of(list, 1);
    return isfinite(sum) ? sum / list->count : sum_of(list, 1.0 / list->count); /* it may be too large where the mean is not */
}

bool hf_is_constant(const hf_list *list) {
    for (uint32_t i = 1; i < list->count; i++)
        if (list->values[i] != list->values[0]) return false;
    return true;
}

double hf_variance(const hf_list *list) {
    double mean = hf_mean(list), squares = 0, rest = 0;
    if (hf_is_constant(list)) return 0; /* and not what rounding makes of it */
    for (uint32_t i = 0; i < list->count; i++) {
        double deviation = list->values[i] - mean;
        squares += deviation * deviation;
        rest += deviation; /* not 0, as far as the mean is rounded */
    }
    return fmax(0, squares - rest * rest / list->count) / (list->count - 1);
}

const char *hf_math_mean(hf_calculation *c) {
    c->out[0] = hf_mean(&c->in[0].list);
    return NULL;
}

const char *hf_math_variance(hf_calculation *c) {
    c->out[0] = hf_variance(&c->in[0].list);
    return NULL;
}

const char *hf_math_stddev(hf_calculation *c) {
    c->out[0] = sqrt(hf_variance(&c->in[0].list));
    return NULL;
}

/* ---- two arrays --------------------------------------------------------------------------------------------------------------------- */

const char *hf_are_pairs(const hf_list *xs, const hf_list *ys) {
    if (xs->count != ys->count) return "xs and ys must have the same length";
    return xs->count < 2 ? "xs and ys must have at least two values" : NULL;
}

const char *hf_math_covariance(hf_calculation *c) {
    const hf_list *xs = &c->in[0].list, *ys = &c->in[1].list;
    const char *problem = hf_are_pairs(xs, ys);
    if (problem) return problem;
    double x = hf_mean(xs), y = hf_mean(ys), sum = 0;
    for (uint32_t i = 0; i < xs->count; i++) sum += (xs->values[i] - x) * (ys->values[i] - y);
    c->out[0] = sum / (xs->count - 1);
    return NULL;
}

/* Deviations from the mean, so large that the largest is 1: their squares neither overflow nor vanish. */
static hf_list deviations(hf_calculation *c, const hf_list *list) {
    double mean = hf_mean(list), largest = 0;
    hf_list out = hf_new_list(c, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        out.values[i] = list->values[i] / 2 - mean / 2;
        largest = fmax(largest, fabs(out.values[i]));
    }
    for (uint32_t i = 0; i < list->count; i++) out.values[i] /= largest;
    return out;
}

const char *hf_correlate(hf_calculation *c, const hf_list *xs, const hf_list *ys) {
    const char *problem = hf_are_pairs(xs, ys);
    if (problem) return problem;
    if (hf_is_constant(xs) || hf_is_constant(ys)) return "of a constant array there is no correlation";
    hf_list dx = deviations(c, xs), dy = deviations(c, ys);
    double both = 0, x = 0, y = 0;
    for (uint32_t i = 0; i < dx.count; i++) {
        both += dx.values[i] * dy.values[i];
        x += dx.values[i] * dx.values[i];
        y += dy.values[i] * dy.values[i];
    }
    c->out[0] = fmax(-1, fmin(1, both / sqrt(x * y)));
    return NULL;
}

const char *hf_math_correlation(hf_calculation *c) { return hf_correlate(c, &c->in[0].list, &c->in[1].list); }

/* ---- order -------------------------------------------------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

hf_list hf_sorted(hf_calculation *c, const hf_list *list) {
    hf_list sorted = hf_new_list(c, list->count);
    memcpy(sorted.values, list->values, list->count * sizeof(double));
    qsort(sorted.values, sorted.count, sizeof(double), compare);
    return sorted;
}

static double percentile(const hf_list *sorted, double percent) {
    double place = percent / 100 * (sorted->count - 1), fraction = place - floor(place);
    const double *at = sorted->values + (uint32_t)place;
    return fraction > 0 ? at[0] + fraction * (at[1] - at[0]) : at[0];
}

const char *hf_math_percentile(hf_calculation *c) {
    hf_list sorted = hf_sorted(c, &c->in[0].list);
    c->out[0] = percentile(&sorted, c->in[1].number);
    return NULL;
}

const char *hf_math_median(hf_calculation *c) {
    hf_list sorted = hf_sorted(c, &c->in[0].list);
    c->out[0] = percentile(&sorted, 50);
    return NULL;
}

const char *hf_math_iqr(hf_calculation *c) {
    hf_list sorted = hf_sorted(c, &c->in[0].list);
    c->out[0] = percentile(&sorted, 75) - percentile(&sorted, 25);
    return NULL;
}

/* ---- other shapes of the same numbers ------------------------------------------------------------------------------------------- */

static double largest_of(const hf_list *list) {
    double largest = -INFINITY;
    for (uint32_t i = 0; i < list->count; i++) largest = fmax(largest, list->values[i]);
    return largest;
}

const char *hf_math_softmax(hf_calculation *c) {
    const hf_list *values = &c->in[0].list;
    hf_list shares = c->lists[0] = hf_new_list(c, values->count);
    double largest = largest_of(values), sum = 0;
    for (uint32_t i = 0; i < shares.count; i++) sum += shares.values[i] = exp(values->values[i] - largest);
    for (uint32_t i = 0; i < shares.count; i++) shares.values[i] /= sum;
    return NULL;
}

const char *hf_math_logsumexp(hf_calculation *c) {
    const hf_list *values = &c->in[0].list;
    double largest = largest_of(values), sum = 0;
    for (uint32_t i = 0; i < values->count; i++) sum += exp(values->values[i] - largest);
    c->out[0] = largest + log(sum);
    return NULL;
}

const char *hf_math_log_normalize(hf_calculation *c) {
    const hf_list *values = &c->in[0].list;
    hf_list out = c->lists[0] = hf_new_list(c, values->count);
    double whole = log1p(largest_of(values));
    for (uint32_t i = 0; i < out.count; i++) out.values[i] = 100 * (log1p(values->values[i]) / whole);
    return NULL;
}

const char *hf_math_histogram(hf_calculation *c) {
    enum { MOST = 1000000 };
    const hf_list *values = &c->in[0].list;
    double low = INFINITY, high = largest_of(values), bins = (double)c->in[1].integer;
    if (bins > MOST) return "bins must be at most 1000000";
    for (uint32_t i = 0; i < values->count; i++) low = fmin(low, values->values[i]);
    if (low == high) high = low + 1;
    double width = isfinite(high - low) ? (high - low) / bins : high / bins - low / bins;
    hf_list counts = c->lists[0] = hf_new_list(c, (uint64_t)bins), edges = c->lists[1] = hf_new_list(c, (uint64_t)bins + 1);
    for (uint32_t i = 0; i < values->count; i++) {
        double place = width > 0 ? (values->values[i] - low) / width : 0;
        counts.values[place < bins - 1 ? (uint32_t)place : counts.count - 1]++;
    }
    for (uint32_t i = 0; i < counts.count; i++) edges.values[i] = low + i * width;
    edges.values[counts.count] = high;
    return NULL;
}

const char *hf_math_wilson_ci(hf_calculation *c) {
    double successes = c->in[0].number, total = c->in[1].number, confidence = c->in[2].given ? c->in[2].number : 0.95;
    if (successes > total) return "successes must not be more than total";
    double share = successes / total, z = hf_normal_quantile((1 - confidence) / 2), square = z * z / total;
    if (isinf(z)) { /* certainty: the limit of what follows */
        c->out[1] = 1;
        c->out[2] = 0.5;
        return NULL;
    }
    double center = (share + square / 2) / (1 + square);
    double margin = sqrt(square * (share * (1 - share) + square / 4)) / (1 + square);
    c->out[0] = fmax(0, fmin(share, center - margin)); /* rounding must not leave the share itself outside */
    c->out[1] = fmin(1, fmax(share, center + margin));
    c->out[2] = center;
    return NULL;
}

/* Tests of hypotheses: whether two samples, or counts and what was expected of them, differ by more than chance. All are two-sided. */
#include <math.h>
#include <string.h>

#include "numbers.h"

const char *hf_math_welch_t_test(hf_calculation *c) {
    const hf_list *xs = &c->in[0].list, *ys = &c->in[1].list;
    if (xs->count < 2 || ys->count < 2) return "xs and ys must have at least two values each";
    double x = hf_variance(xs) / xs->count, y = hf_variance(ys) / ys->count, both = x + y;
    if (both <= 0) return "the values of xs and ys do not vary";
    double t = (hf_mean(xs) - hf_mean(ys)) / sqrt(both), in_x = x / both, in_y = y / both;
    double df = 1 / (in_x * in_x / (xs->count - 1) + in_y * in_y / (ys->count - 1));
    double share = isfinite(t * t) ? df / (df + t * t) : 0, rest = isfinite(t * t) ? t * t / (df + t * t) : 1;
    c->out[0] = t;
    c->out[1] = df;
    c->out[2] = hf_beta_lower(df / 2, 0.5, share, rest);
    return NULL;
}

const char *hf_math_mann_whitney_u(hf_calculation *c) {
    const hf_list *xs = &c->in[0].list, *ys = &c->in[1].list;
    bool for_continuity = !c->in[2].given || c->in[2].integer, for_ties = !c->in[3].given || c->in[3].integer;
    double n = xs->count, m = ys->count, all = n + m, ties, sum = 0;
    hf_list together = hf_new_list(c, (uint64_t)all);
    memcpy(together.values, xs->values, xs->count * sizeof(double));
    memcpy(together.values + xs->count, ys->values, ys->count * sizeof(double));
    hf_list ranks = hf_ranks(c, &together, &ties);
    for (uint32_t i = 0; i < xs->count; i++) sum += ranks.values[i];
    double u = sum - n * (n + 1) / 2, smaller = fmin(u, n * m - u);
    double variance = n * m / 12 * (all + 1 - (for_ties ? ties / (all * (all - 1)) : 0));
    double below = smaller - n * m / 2 + (for_continuity ? 0.5 : 0);
    double z = variance > 0 ? fmin(below, 0) / sqrt(variance) : 0; /* of values that are all the same, nothing can be said */
    c->out[0] = smaller;
    c->out[1] = z;
    c->out[2] = fmin(1, 2 * hf_normal_upper(-z));
    return NULL;
}

const char *hf_math_chi_squared_test(hf_calculation *c) {
    const hf_list *observed = &c->in[0].list, *expected = &c->in[1].list;
    double sum = 0;
    if (observed->count != expected->count) return "observed and expected must have the same length";
    if (observed->count < 2) return "observed and expected must have at least two values";
    for (uint32_t i = 0; i < observed->count; i++) {
        double off = observed->values[i] - expected->values[i];
        if (observed->values[i] < 0) return "observed must not have values below 0";
        if (expected->values[i] <= 0) return "expected must only have values above 0";
        sum += off / expected->values[i] * off;
    }
    c->out[0] = sum;
    c->out[1] = observed->count - 1;
    c->out[2] = hf_gamma_upper(c->out[1] / 2, sum / 2);
    return NULL;
}

/* The mass above x of the distribution by Kolmogorov. Of its two series, one converges fast where the other is slow. */
static double kolmogorov_upper(double x) {
    double sum = 0;
    if (x < 0.1) return 1;
    if (x < 1.2) {
        for (int k = 1; k < 10; k += 2) sum += exp(-k * k * M_PI * M_PI / (8 * x * x));
        return 1 - sqrt(2 * M_PI) / x * sum;
    }
    for (int k = 1; k < 10; k++) sum += (k % 2 ? 2 : -2) * exp(-2.0 * k * k * x * x);
    return sum;
}

const char *hf_math_ks_test(hf_calculation *c) {
    hf_list xs = hf_sorted(c, &c->in[0].list), ys = hf_sorted(c, &c->in[1].list);
    double n = xs.count, m = ys.count, root = sqrt(n * m / (n + m)), largest = 0;
    for (uint32_t i = 0, j = 0; i < xs.count && j < ys.count;) {
        double value = fmin(xs.values[i], ys.values[j]);
        while (i < xs.count && xs.values[i] == value) i++;
        while (j < ys.count && ys.values[j] == value) j++;
        largest = fmax(largest, fabs(i / n - j / m));
    }
    c->out[0] = largest;
    c->out[1] = kolmogorov_upper((root + 0.12 + 0.11 / root) * largest);
    return NULL;
}

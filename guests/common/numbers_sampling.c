/* Samples of distributions.
 *
 * A normal number is the quantile of a uniform one: it takes one draw, and there is nothing to keep between calls. Gamma numbers are
 * made as logarithms, because those of small shapes are too small for a double, and what is made of them would be 0/0. Counts come
 * from the waiting times between events if there are few, and else from transformed rejection.
 */
#include <math.h>

#include "numbers.h"

enum { FEW = 10 }; /* expected events */
static const double most = 1e15; /* counts are exact far above it */

/* ---- continuous --------------------------------------------------------------------------------------------------------------------- */

static double normal(hf_rng *rng) { return hf_normal_quantile(hf_rng_unit(rng)); }

/* The logarithm of a gamma number of scale 1, by the method of Marsaglia and Tsang. */
static double log_gamma_number(hf_rng *rng, double shape) {
    if (shape < 1) {
        double larger = log_gamma_number(rng, shape + 1);
        return fmax(larger + log(hf_rng_unit(rng)) / shape, -1e307); /* finite, so that differences are numbers */
    }
    double d = shape - 1.0 / 3, scale = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(rng), root = 1 + scale * x, log_v = 3 * log(root);
        if (root <= 0) continue;
        if (log(hf_rng_unit(rng)) < 0.5 * x * x + d * (1 - root * root * root + log_v)) return log(d) + log_v;
    }
}

const char *hf_math_normal_sample(hf_calculation *c) {
    c->out[0] = c->in[1].number + c->in[2].number * normal(c->in[0].rng);
    return NULL;
}

const char *hf_math_lognormal_sample(hf_calculation *c) {
    c->out[0] = exp(c->in[1].number + c->in[2].number * normal(c->in[0].rng));
    return NULL;
}

const char *hf_math_exp_sample(hf_calculation *c) {
    c->out[0] = -log(hf_rng_unit(c->in[0].rng)) / c->in[1].number;
    return NULL;
}

const char *hf_math_uniform_sample(hf_calculation *c) {
    double low = c->in[1].number, high = c->in[2].number, value;
    if (low >= high) return "low must be less than high";
    if (!isfinite(high - low)) return "low and high are too far apart";
    do value = low + (high - low) * ((double)(hf_rng_bits(c->in[0].rng) >> 12) * 0x1p-52);
    while (value >= high); /* it was rounded up */
    c->out[0] = value;
    return NULL;
}

const char *hf_math_gamma_sample(hf_calculation *c) {
    c->out[0] = exp(log_gamma_number(c->in[0].rng, c->in[1].number)) * c->in[2].number;
    return NULL;
}

const char *hf_math_chi_squared_sample(hf_calculation *c) {
    c->out[0] = 2 * exp(log_gamma_number(c->in[0].rng, c->in[1].number / 2));
    return NULL;
}

const char *hf_math_student_t_sample(hf_calculation *c) {
    double half = c->in[1].number / 2, x = normal(c->in[0].rng);
    c->out[0] = x * exp((log(half) - log_gamma_number(c->in[0].rng, half)) / 2);
    return NULL;
}

const char *hf_math_beta_sample(hf_calculation *c) {
    double one = log_gamma_number(c->in[0].rng, c->in[1].number), other = log_gamma_number(c->in[0].rng, c->in[2].number);
    c->out[0] = 1 / (1 + exp(other - one));
    return NULL;
}

const char *hf_math_dirichlet_sample(hf_calculation *c) {
    const hf_list *alphas = &c->in[1].list;
    hf_list shares = c->lists[0] = hf_new_list(c, alphas->count);
    double largest = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < shares.count; i++) {
        shares.values[i] = log_gamma_number(c->in[0].rng, alphas->values[i]);
        if (shares.values[i] > largest) largest = shares.values[i];
    }
    for (uint32_t i = 0; i < shares.count; i++) sum += shares.values[i] = exp(shares.values[i] - largest);
    for (uint32_t i = 0; i < shares.count; i++) shares.values[i] /= sum;
    return NULL;
}

/* ---- counts ------------------------------------------------------------------------------------------------------------------------- */

/* Where transformed rejection (by Hörmann: PTRS and BTRS) tries next, and how it decides. */
struct hat {
    double a, b, center, squeeze, scale;
};

/* A place to try, and in `log_height` what the logarithm of the mass there, over that of `scale`, must reach; -inf: it is taken. */
static double attempt(hf_rng *rng, const struct hat *hat, double *log_height) {
    double u = hf_rng_unit(rng) - 0.5, v = hf_rng_unit(rng), edge = 0.5 - fabs(u);
    double slope = 2 * hat->a / edge + hat->b;
    *log_height = edge >= 0.07 && v <= hat->squeeze ? -INFINITY : log(v * hat->scale / (hat->a / (edge * edge) + hat->b));
    return floor(slope * u + hat->center);
}

static double poisson(hf_rng *rng, double lambda) {
    if (lambda < FEW) {
        double k = -1;
        for (double time = 0; time < lambda; k++) time -= log(hf_rng_unit(rng));
        return k < 0 ? 0 : k;
    }
    double b = 0.931 + 2.53 * sqrt(lambda), log_height, k;
    struct hat hat = {0.02483 * b - 0.059, b, lambda + 0.43, 0.9277 - 3.6224 / (b - 2), 1.1239 + 1.1328 / (b - 3.4)};
    do k = attempt(rng, &hat, &log_height);
    while (k < 0 || log_height > hf_log_poisson(k, lambda));
    return k;
}

static double binomial(hf_rng *rng, double n, double p) { /* p is at most 1/2 */
    double k = -1, q = 1 - p;
    if (n * p < FEW) {
        if (p <= 0) return 0;
        for (double trials = 0; trials <= n; k++) trials += floor(log(hf_rng_unit(rng)) / log1p(-p)) + 1;
        return k;
    }
    double spread = sqrt(n * p * q), b = 1.15 + 2.53 * spread, log_height, peak = hf_log_binomial(floor((n + 1) * p), n, p, q);
    struct hat hat = {0.0248 * b + 0.01 * p - 0.0873, b, n * p + 0.5, 0.92 - 4.2 / b, (2.83 + 5.1 / b) * spread};
    do k = attempt(rng, &hat, &log_height);
    while (k < 0 || k > n || log_height > hf_log_binomial(k, n, p, q) - peak);
    return k;
}

const char *hf_math_poisson_sample(hf_calculation *c) {
    if (c->in[1].number > most) return "lambda must be at most 1e15";
    c->integer = (int64_t)poisson(c->in[0].rng, c->in[1].number);
    return NULL;
}

const char *hf_math_binomial_sample(hf_calculation *c) {
    double n = (double)c->in[1].integer, p = c->in[2].number;
    if (n > most) return "n must be at most 1e15";
    double k = p <= 0.5 ? binomial(c->in[0].rng, n, p) : n - binomial(c->in[0].rng, n, 1 - p);
    c->integer = (int64_t)k;
    return NULL;
}

const char *hf_math_categorical_sample(hf_calculation *c) {
    const hf_list *weights = &c->in[1].list;
    double largest = 0, sum = 0;
    for (uint32_t i = 0; i < weights->count; i++)
        if (weights->values[i] > largest) largest = weights->values[i];
    for (uint32_t i = 0; i < weights->count; i++) sum += weights->values[i] / largest;
    double left = hf_rng_unit(c->in[0].rng) * sum;
    for (uint32_t i = 0; i < weights->count; i++) {
        if (weights->values[i] <= 0) continue; /* it is never taken, not even by rounding */
        c->integer = i;
        left -= weights->values[i] / largest;
        if (left < 0) break;
    }
    return NULL;
}

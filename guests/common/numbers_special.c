/* Special functions, and the distributions that are made of them.
 *
 * Gamma and beta functions of large arguments are huge, and their logarithms nearly cancel each other. What is wanted is written
 * with the error of Stirling's formula, which is small, and with `log1p(u) - u`, which is small where the distributions have their
 * mass. So the results are good to about 12 digits, as far as the arguments determine them. Sums and continued fractions converge in
 * a number of steps that grows with the root of the arguments; where that would be too many, the asymptotic forms are exact enough.
 */
#include <math.h>
#include <string.h>

#include "numbers.h"

static const double log_root_2pi = 0.91893853320467274178;
static const double tiny = 1e-300, precise = 1e-16, at_rest = 5e-16; /* a factor so near 1 may be nothing but rounding */
static const double large = 1e8; /* from here on the asymptotic forms are exact */
enum {
    STIRLING = 10,    /* and from here on the series for the error of his formula */
    PATIENCE = 1 << 20, /* steps of a continued fraction: far more than it takes to come to rest */
};

/* ---- the gamma function ------------------------------------------------------------------------------------------------------------- */

/* ln gamma(x) - ((x - 1/2) ln x - x + ln(2 pi) / 2) */
static double stirling_error(double x) {
    static const double terms[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156};
    if (x < STIRLING) return lgamma(x) - ((x - 0.5) * log(x) - x + log_root_2pi);
    double sum = 0, square = 1 / (x * x);
    for (int i = 6; i >= 0; i--) sum = sum * square + terms[i];
    return sum / x;
}

/* ln(1 + u) - u */
static double log1p_excess(double u) {
    if (fabs(u) > 0.3) return log1p(u) - u;
    double r = u / (2 + u), square = r * r, power = r * square, sum = 0;
    for (double n = 3, term = 1; fabs(term) > precise * fabs(sum); n += 2, power *= square) {
        if (!power) break;
        sum += term = power / n;
    }
    return 2 * sum - r * u;
}

/* The same, where 1 + u is known as `ratio`, and u may be near -1. */
static double log_excess(double u, double ratio) { return fabs(u) < 0.5 ? log1p_excess(u) : log(ratio) - u; }

/* How far x is from the middle of a distribution; never above 0. */
static double distance(double x, double middle) { return log_excess((x - middle) / middle, x / middle); }

static double ln_beta(double a, double b) {
    if (a > b) {
        double smaller = b;
        b = a;
        a = smaller;
    }
    double both = a + b;
    if (b < STIRLING) return lgamma(a) + lgamma(b) - lgamma(both);
    double errors = stirling_error(b) - stirling_error(both);
    if (a < STIRLING) return lgamma(a) + a - a * log(both) - (b - 0.5) * log1p(a / b) + errors;
    return log_root_2pi + 0.5 * log(both / a / b) + a * log(a / both) + b * log1p(-a / both) + errors + stirling_error(a);
}

static double digamma(double x) {
    static const double terms[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
    if (x <= 0) return x == floor(x) ? NAN : digamma(1 - x) - M_PI / tan(M_PI * (x - floor(x)));
    double result = 0, sum = 0;
    for (; x < STIRLING; x++) result -= 1 / x;
    double square = 1 / (x * x);
    for (int i = 6; i >= 0; i--) sum = (sum + terms[i]) * square;
    return result + log(x) - 0.5 / x - sum;
}

/* ---- incomplete gamma functions ------------------------------------------------------------------------------------------------- */

/* ln(x^a e^-x / gamma(a + 1)) */
double hf_log_poisson(double a, double x) {
    if (!x) return a ? -INFINITY : 0;
    if (a < STIRLING) return a * log(x) - x - lgamma(a + 1);
    return a * distance(x, a) - stirling_error(a) - 0.5 * log(a) - log_root_2pi;
}

/* P(a, x) by its series: the terms fall if x is less than a */
static double gamma_series(double a, double x) {
    double sum = 1;
    for (double term = 1, n = a + 1; term > precise * sum; n++) sum += term *= x / n;
    return sum * exp(hf_log_poisson(a, x));
}

/* Q(a, x) by its continued fraction, from the top (as Lentz does it) */
static double gamma_fraction(double a, double x) {
    double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d, change = 0;
    for (double n = 1; fabs(change - 1) > at_rest && n < PATIENCE; n++) {
        double numerator = n * (a - n);
        b += 2;
        d = numerator * d + b;
        c = b + numerator / c;
        if (fabs(d) < tiny) d = tiny;
        if (fabs(c) < tiny) c = tiny;
        d = 1 / d;
        h *= change = c * d;
    }
    return h * a * exp(hf_log_poisson(a, x));
}

/* Q(a, x) for large a, by Temme */
static double gamma_asymptotic(double a, double x) {
    double square = -2 * distance(x, a), eta = copysign(sqrt(square), x - a);
    double correction = -1.0 / 3 + eta * (1.0 / 12 - eta * (2.0 / 135 - eta / 864));
    return erfc(eta * sqrt(a / 2)) / 2 + correction * exp(-a * square / 2 - 0.5 * log(a) - log_root_2pi);
}

static double gamma_lower(double a, double x) {
    if (x <= 0) return 0;
    if (isinf(x)) return 1;
    if (a > large) return fabs(x - a) > a / 2 ? x > a : 1 - gamma_asymptotic(a, x);
    return x < a + 1 ? gamma_series(a, x) : 1 - gamma_fraction(a, x);
}

double hf_gamma_upper(double a, double x) {
    if (x <= 0) return 1;
    if (isinf(x)) return 0;
    if (a > large) return fabs(x - a) > a / 2 ? x < a : gamma_asymptotic(a, x);
    return x < a + 1 ? 1 - gamma_series(a, x) : gamma_fraction(a, x);
}

/* ---- the incomplete beta function ------------------------------------------------------------------------------------------------- */

/* The middle is where x is a / (a + b) and y is b / (a + b). x * b - y * a is 0 there, and says how far it is, times a + b. */
static double beta_distance(double a, double b, double x, double y) {
    double off = x * b - y * a, both = a + b;
    return a * log_excess(off / a, x * (both / a)) + b * log_excess(-off / b, y * (both / b));
}

/* x^a y^b / B(a, b); of x and y the smaller one has all digits */
static double beta_power(double a, double b, double x, double y) {
    if (a < STIRLING || b < STIRLING)
        return exp(a * (y < 0.5 ? log1p(-y) : log(x)) + b * (x < 0.5 ? log1p(-x) : log(y)) - ln_beta(a, b));
    double errors = stirling_error(a + b) - stirling_error(a) - stirling_error(b);
    return exp(beta_distance(a, b, x, y) + errors + 0.5 * log(a / (a + b) * b) - log_root_2pi);
}

/* The continued fraction whose terms do not cancel each other where x is below the middle, or not far above it. */
static double beta_fraction(double a, double b, double x, double y) {
    double off = a * y - b * x + 1, c = a * off / (a + 1), d = 0, h, change = 0;
    if (fabs(c) < tiny) c = tiny;
    h = c;
    for (double n = 1; fabs(change - 1) > at_rest && n < PATIENCE; n++) {
        double step = a + 2 * n - 1, numerator = (a + n - 1) / step * ((a + b + n - 1) / step) * n * (b - n) * x * x;
        double term = n + n * (b - n) * x / step + (a + n) * (off + n * (1 + y)) / (step + 2);
        d = term + numerator * d;
        c = term + numerator / c;
        if (fabs(d) < tiny) d = tiny;
        if (fabs(c) < tiny) c = tiny;
        d = 1 / d;
        h *= change = c * d;
    }
    return beta_power(a, b, x, y) / h;
}

/* For large a and b, by Temme */
static double beta_asymptotic(double a, double b, double x, double y) {
    double both = a + b, off = x * b - y * a, spread = sqrt(a / both) * sqrt(b / both);
    double square = -2 * beta_distance(a, b, x, y) / both, eta = copysign(sqrt(square), off);
    double correction = fabs(eta) > 1e-5 * spread ? 1 / eta - spread / off * both
                                                  : ((b - a) / both / spread - (1 / (spread * spread) - 1) * eta / 4) / 3;
    return erfc(-eta * sqrt(both / 2)) / 2 + correction * exp(-square / 2 * both - 0.5 * log(both) - log_root_2pi);
}

double hf_beta_lower(double a, double b, double x, double y) {
    if (x <= 0) return 0;
    if (y <= 0) return 1;
    if (a > large && b > large) return beta_asymptotic(a, b, x, y);
    return x * (b + 1) < y * (a + 1) ? beta_fraction(a, b, x, y) : 1 - beta_fraction(b, a, y, x);
}

/* Doubles that are not negative are in the order of their bits, so halving these finds the one wanted in 62 steps, however small. */
static double beta_quantile(double p, double a, double b) {
    double x = 1;
    uint64_t low = 0, high;
    memcpy(&high, &x, sizeof x);
    if (p <= 0 || p >= 1) return p;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        memcpy(&x, &middle, sizeof x);
        if (hf_beta_lower(a, b, x, 1 - x) < p)
            low = middle;
        else
            high = middle;
    }
    memcpy(&x, &high, sizeof x);
    return x;
}

/* ln of the binomial mass at k */
double hf_log_binomial(double k, double n, double p, double q) {
    if (k <= 0) return n * log1p(-p);
    if (k >= n) return n * log(p);
    double rest = n - k, errors = stirling_error(n) - stirling_error(k) - stirling_error(rest);
    return beta_distance(k, rest, p, q) + errors + 0.5 * log(n / k / rest) - log_root_2pi;
}

/* ---- the normal distribution ------------------------------------------------------------------------------------------------------ */

double hf_normal_upper(double x) { return erfc(x * M_SQRT1_2) / 2; }

/* A good guess, and three steps by Halley. Near the middle the mass is counted from there, and else from the nearer end, so that as many
 * digits are right as p has. */
double hf_normal_quantile(double p) {
    double from_middle = p - 0.5, end = from_middle < 0 ? p : 1 - p, x;
    bool central = fabs(from_middle) < 0.3;
    if (end <= 0) return copysign(INFINITY, from_middle);
    if (central)
        x = from_middle * 2.5;
    else {
        double t = sqrt(-2 * log(end)); /* Abramowitz and Stegun 26.2.23 */
        x = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
    }
    for (int i = 0; i < 3; i++) {
        double off = central ? erf(x * M_SQRT1_2) / 2 - from_middle : hf_normal_upper(-x) - end;
        double half = exp(x * x / 4), step = off * half * half * sqrt(2 * M_PI); /* what is off, over the density */
        x -= step / (1 + x * step / 2);
    }
    return !central && from_middle > 0 ? -x : x;
}

/* ---- functions of the table --------------------------------------------------------------------------------------------------------- */

static const char *give(hf_calculation *c, double result) {
    c->out[0] = result;
    return NULL;
}

static double number(const hf_calculation *c, int i, double otherwise) { return c->in[i].given ? c->in[i].number : otherwise; }

const char *hf_math_erf(hf_calculation *c) { return give(c, erf(c->in[0].number)); }
const char *hf_math_erfc(hf_calculation *c) { return give(c, erfc(c->in[0].number)); }
const char *hf_math_lgamma(hf_calculation *c) { return give(c, lgamma(c->in[0].number)); }
const char *hf_math_digamma(hf_calculation *c) { return give(c, digamma(c->in[0].number)); }
const char *hf_math_ln_beta(hf_calculation *c) { return give(c, ln_beta(c->in[0].number, c->in[1].number)); }
const char *hf_math_beta(hf_calculation *c) { return give(c, exp(ln_beta(c->in[0].number, c->in[1].number))); }

const char *hf_math_regularized_incomplete_beta(hf_calculation *c) {
    double x = c->in[0].number;
    return give(c, hf_beta_lower(c->in[1].number, c->in[2].number, x, 1 - x));
}

const char *hf_math_regularized_incomplete_gamma(hf_calculation *c) { return give(c, gamma_lower(c->in[0].number, c->in[1].number)); }

static double factorial(int64_t n) {
    double product = 1;
    for (int64_t i = 2; i <= n; i++) product *= (double)i;
    return product;
}

enum { LARGEST_FACTORIAL = 170 };

const char *hf_math_factorial(hf_calculation *c) {
    if (c->in[0].integer > LARGEST_FACTORIAL) return "n must be at most 170";
    return give(c, factorial(c->in[0].integer));
}

const char *hf_math_ln_factorial(hf_calculation *c) {
    int64_t n = c->in[0].integer;
    return give(c, n <= LARGEST_FACTORIAL ? log(factorial(n)) : lgamma((double)n + 1));
}

const char *hf_math_logit(hf_calculation *c) {
    double p = c->in[0].number;
    return give(c, fabs(p - 0.5) < 0.25 ? log1p((2 * p - 1) / (1 - p)) : log(p) - log1p(-p));
}

const char *hf_math_expit(hf_calculation *c) {
    double x = c->in[0].number, power = exp(-fabs(x));
    return give(c, (x < 0 ? power : 1) / (1 + power));
}

const char *hf_math_normal_cdf(hf_calculation *c) {
    return give(c, hf_normal_upper(-(c->in[0].number - number(c, 1, 0)) / number(c, 2, 1)));
}

const char *hf_math_normal_inverse_cdf(hf_calculation *c) {
    return give(c, number(c, 1, 0) + number(c, 2, 1) * hf_normal_quantile(c->in[0].number));
}

const char *hf_math_normal_ppf(hf_calculation *c) { return give(c, hf_normal_quantile(c->in[0].number)); }

const char *hf_math_beta_cdf(hf_calculation *c) {
    double x = c->in[0].number;
    return give(c, isnan(x) ? x : hf_beta_lower(c->in[1].number, c->in[2].number, x, 1 - x));
}

const char *hf_math_beta_ppf(hf_calculation *c) { return give(c, beta_quantile(c->in[0].number, c->in[1].number, c->in[2].number)); }

const char *hf_math_gamma_cdf(hf_calculation *c) {
    double x = c->in[0].number;
    return give(c, isnan(x) ? x : gamma_lower(c->in[1].number, x / c->in[2].number));
}

const char *hf_math_poisson_cdf(hf_calculation *c) {
    double k = (double)c->in[0].integer;
    return give(c, k < 0 ? 0 : hf_gamma_upper(k + 1, c->in[1].number));
}

const char *hf_math_beta_mean(hf_calculation *c) {
    return give(c, 1 / (1 + c->in[1].number / c->in[0].number));
}

const char *hf_math_beta_variance(hf_calculation *c) {
    double a = c->in[0].number, b = c->in[1].number, both = a + b;
    return give(c, a / both * (b / both) / (both + 1));
}

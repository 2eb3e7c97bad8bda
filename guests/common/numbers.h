/* Numbers: the functions of alc.math in Lua, and of hf.math in JavaScript.
 *
 * Theory of operation
 * -------------------
 * There is one table (HF_MATH, at the end). An entry says what a function is called, what it takes, and what it gives; what
 * computes it is hf_math_ and its name. The two languages only carry values: each has a `read` that copies an argument out of the
 * script's world, and code that makes the result. Everything else is here, so names, checks and messages are the same in both.
 * JavaScript has the names of functions and options in camelCase; the fields of records are data, and are called the same in both.
 *
 * All arguments are copied before anything is computed: reading may run code of the script, and may fail. What a calculation has
 * allocated belongs to it, and is gone when it ends, so a language may raise its errors after that, however it does it.
 */
#ifndef HOLDFAST_NUMBERS_H
#define HOLDFAST_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- random numbers: numbers_random.c ------------------------------------------------------------------------------------------- */

typedef struct { /* a stream of words: see numbers_random.c */
    uint32_t key[8];
    uint64_t next; /* the number of the block after this one */
    uint32_t block[16];
    uint32_t used; /* words of the block */
} hf_rng;

uint64_t hf_rng_bits(hf_rng *rng);
double hf_rng_unit(hf_rng *rng); /* above 0, and below 1 */

/* ---- calculations ----------------------------------------------------------------------------------------------------------------- */

enum { HF_ARGUMENTS = 4 };

typedef struct {
    double *values;
    uint32_t count;
} hf_list;

typedef struct {
    bool given; /* false: it may be left out, and was */
    double number;
    int64_t integer;
    hf_list list;
    uint32_t count; /* of an array of anything */
    hf_rng *rng;
} hf_argument;

typedef struct hf_calculation {
    hf_argument in[HF_ARGUMENTS];
    double out[3]; /* a number; the fields of a record */
    int64_t integer;
    hf_list lists[2];
    uint32_t width; /* of lists of lists: the numbers in each; `integer` is how many there are */
    hf_rng rng;     /* a new one */
    char message[160]; /* why it failed */
    bool camel_case;   /* set by the language: how its names are written */
    void *(*resize)(void *with, void *block, size_t size); /* set by the language: hf_realloc, or something that collects garbage */
    void *with;
    void *rooms; /* what was allocated */
} hf_calculation;

/* What becomes of an argument. How each way to read fills it:
 *
 *     'n'  a number: number                    't'  an array of anything: count
 *     'i'  an integer: integer                 'r'  a generator: rng
 *     'a'  an array of numbers: list           'b'  the field `name` of a table of options, true or false: integer
 *     'm'  the same, but an element may be an array of numbers: hf_first_relevant() of it stands for it
 */
typedef enum { HF_READ, HF_ABSENT, HF_WRONG, HF_THROWN } hf_reading;

typedef struct {
    const char *data;
    uint32_t length;
} hf_name;

typedef hf_reading hf_reader(hf_calculation *c, uint32_t at, char way, hf_name name, hf_argument *argument);

/* ---- the table: numbers.c ----------------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    const char *takes; /* kind:name kind:name? ... */
    const char *gives;
    const char *(*compute)(hf_calculation *c); /* returns NULL, or what is wrong */
} hf_function; /* all of them are listed at the end of this file */

/* What a function gives:
 *
 *     "n"  out[0]                  "a"  lists[0]                         "s"  the array in[1], its elements in the order lists[0]
 *     "i"  integer                 "#"  lists of indexes: lists[0]      "w"  a new array: the elements lists[0] of the array in[1]
 *     "@"  integer, an index       "r"  rng                              "{name name}"  a record of out[], in this order
 *                                                                        "{+name *name}"  of lists: integers, numbers
 * Indexes count from 0 here and in JavaScript, and from 1 in Lua.
 */
extern const hf_function hf_functions[];
extern const uint32_t hf_functions_count;

enum { HF_NAME_LENGTH = 40 };
void hf_camel_case(hf_name name, char out[HF_NAME_LENGTH]);
uint32_t hf_function_length(const hf_function *function); /* how many arguments it takes */
enum { HF_FIELD_MAX = 24 };
/* Copies the next name of a record, and says what it is: ' ', '+' or '*'. NULL: there are no more. */
const char *hf_next_field(const char *gives, char name[HF_FIELD_MAX], char *kind);

/* Reads, checks and computes. Anything but HF_READ: there is no result; HF_WRONG: and `message` says why. */
hf_reading hf_calculate(const hf_function *function, hf_calculation *c, hf_reader *read);
void hf_calculation_end(hf_calculation *c);

/* For readers. */
void hf_list_add(hf_calculation *c, hf_list *list, double value);
double hf_first_relevant(const hf_list *list); /* the place, from 1, of the first that is above 0; 0: there is none */

/* For those that compute: memory until the calculation ends. It is zero. */
double *hf_room(hf_calculation *c, uint64_t count);
hf_list hf_new_list(hf_calculation *c, uint64_t count);

/* ---- what more than one file needs ---------------------------------------------------------------------------------------------- */

bool hf_is_constant(const hf_list *list);
const char *hf_are_pairs(const hf_list *xs, const hf_list *ys); /* NULL, or what is wrong */
double hf_mean(const hf_list *list);
double hf_variance(const hf_list *list);
hf_list hf_sorted(hf_calculation *c, const hf_list *list);
hf_list hf_ranks(hf_calculation *c, const hf_list *list, double *ties); /* ties: the sum of t^3 - t over groups of t equal values */
const char *hf_correlate(hf_calculation *c, const hf_list *xs, const hf_list *ys);

double hf_normal_upper(double x);                         /* of the standard normal distribution: the mass above x */
double hf_normal_quantile(double p);
double hf_gamma_upper(double a, double x);                /* Q(a, x) */
double hf_beta_lower(double a, double b, double x, double y); /* I_x(a, b), where y is 1 - x */
double hf_log_poisson(double k, double lambda);           /* the logarithm of the mass at k */
double hf_log_binomial(double k, double n, double p, double q);

/* ---- the functions -------------------------------------------------------------------------------------------------------------- */

/* What they mean, where there is a choice:
 *
 *   - A number that an array holds is finite; NaN and infinities are refused there. Elsewhere a NaN gives a NaN.
 *   - rng_create, rng_float, rng_int, shuffle and sample_with_replacement give for a seed what the Rust crates rand 0.9 and
 *     mlua-mathlib 0.3 give. The distributions are sampled in ways of our own. shuffle changes the array itself, and returns it.
 *   - variance, stddev and covariance are those of a sample (n - 1). One value alone has the variance 0.
 *   - percentile interpolates between the nearest values: the smallest is 0 %, the largest 100 %. median and iqr do the same.
 *   - log_normalize: 100 ln(1 + x) / ln(1 + max).
 *   - histogram: bins of one width from the smallest to the largest value. The last bin includes its upper edge. If all values are
 *     the same, the bins go from there to 1 more.
 *   - wilson_ci takes a confidence (0.95 if it is left out), and not a z-score.
 *   - gamma_sample and gamma_cdf take a shape and a scale; exp_sample takes a rate.
 *   - lgamma is that of the absolute value of gamma. digamma is NaN where it has poles.
 *   - The tests are two-sided. welch_t_test: with the degrees of freedom by Welch and Satterthwaite. mann_whitney_u: the smaller U;
 *     the normal approximation, corrected for ties and for continuity unless options say false. ks_test: two samples; the asymptotic
 *     distribution with the correction by Stephens.
 *   - rank counts from 1, and equal values share the mean of their ranks. kendall_tau is tau-b. Of a constant array there is no
 *     correlation: that is an error.
 *   - ndcg: a gain is the relevance itself, discounted by log2(place + 1); all places if k is left out; 0 if nothing is relevant.
 *     mrr takes the ranks of the first relevant results (0: none was found), or lists of relevances of results in their order.
 *   - entropy and its relatives are in nats. Where q is 0 and p is not, kl_divergence and cross_entropy are infinite.
 *   - moving_average: only full windows. ewma begins with the first value. autocorrelation: with the mean and variance of all values.
 *   - permutations: all of them, or of k of the n, in lexicographic order; at most 40320, which is 8!.
 */
#define HF_MATH(X)                                                                                    \
    /* numbers_random.c */                                                                            \
    X(rng_create, "i:seed", "r")                                                                      \
    X(rng_float, "r:rng", "n")                                                                        \
    X(rng_int, "r:rng i:min i:max", "i")                                                              \
    X(shuffle, "r:rng t:values", "s")                                                                 \
    X(sample_with_replacement, "r:rng t:values u:n", "w")                                             \
    /* numbers_sampling.c */                                                                          \
    X(normal_sample, "r:rng f:mean 0:stddev", "n")                                                    \
    X(beta_sample, "r:rng +:alpha +:beta", "n")                                                       \
    X(gamma_sample, "r:rng +:shape +:scale", "n")                                                     \
    X(exp_sample, "r:rng +:lambda", "n")                                                              \
    X(uniform_sample, "r:rng f:low f:high", "n")                                                      \
    X(lognormal_sample, "r:rng f:mu 0:sigma", "n")                                                    \
    X(student_t_sample, "r:rng +:df", "n")                                                            \
    X(chi_squared_sample, "r:rng +:df", "n")                                                          \
    X(poisson_sample, "r:rng 0:lambda", "i")                                                          \
    X(binomial_sample, "r:rng u:n p:p", "i")                                                          \
    X(dirichlet_sample, "r:rng s:alphas", "a")                                                        \
    X(categorical_sample, "r:rng w:weights", "@")                                                     \
    /* numbers_describe.c */                                                                          \
    X(mean, "a:values", "n")                                                                          \
    X(variance, "a:values", "n")                                                                      \
    X(stddev, "a:values", "n")                                                                        \
    X(median, "a:values", "n")                                                                        \
    X(percentile, "a:values %:p", "n")                                                                \
    X(iqr, "a:values", "n")                                                                           \
    X(covariance, "a:xs a:ys", "n")                                                                   \
    X(correlation, "a:xs a:ys", "n")                                                                  \
    X(softmax, "a:values", "a")                                                                       \
    X(log_normalize, "w:values", "a")                                                                 \
    X(histogram, "a:values k:bins", "{+counts *edges}")                                               \
    X(wilson_ci, "0:successes +:total p:confidence?", "{lower upper center}")                         \
    /* numbers_special.c */                                                                           \
    X(normal_cdf, "x:x f:mu? +:sigma?", "n")                                                          \
    X(beta_cdf, "x:x +:alpha +:beta", "n")                                                            \
    X(gamma_cdf, "x:x +:shape +:scale", "n")                                                          \
    X(poisson_cdf, "i:k 0:lambda", "n")                                                               \
    X(normal_inverse_cdf, "p:p f:mu? +:sigma?", "n")                                                  \
    X(normal_ppf, "p:p", "n")                                                                         \
    X(beta_ppf, "p:p +:alpha +:beta", "n")                                                            \
    X(beta_mean, "+:alpha +:beta", "n")                                                               \
    X(beta_variance, "+:alpha +:beta", "n")                                                           \
    X(erf, "x:x", "n")                                                                                \
    X(erfc, "x:x", "n")                                                                               \
    X(lgamma, "x:x", "n")                                                                             \
    X(beta, "+:a +:b", "n")                                                                           \
    X(ln_beta, "+:a +:b", "n")                                                                        \
    X(regularized_incomplete_beta, "p:x +:a +:b", "n")                                                \
    X(regularized_incomplete_gamma, "+:a 0:x", "n")                                                   \
    X(digamma, "x:x", "n")                                                                            \
    X(factorial, "u:n", "n")                                                                          \
    X(ln_factorial, "u:n", "n")                                                                       \
    X(logsumexp, "a:values", "n")                                                                     \
    X(logit, "p:p", "n")                                                                              \
    X(expit, "x:x", "n")                                                                              \
    /* numbers_tests.c */                                                                             \
    X(welch_t_test, "a:xs a:ys", "{t_stat df p_value}")                                               \
    X(mann_whitney_u, "a:xs a:ys b:continuity_correction? b:tie_correction?", "{u_stat z_score p_value}") \
    X(chi_squared_test, "a:observed a:expected", "{chi2_stat df p_value}")                            \
    X(ks_test, "a:xs a:ys", "{d_stat p_value}")                                                       \
    /* numbers_ranking.c */                                                                           \
    X(rank, "a:values", "a")                                                                          \
    X(spearman_correlation, "a:xs a:ys", "n")                                                         \
    X(kendall_tau, "a:xs a:ys", "n")                                                                  \
    X(ndcg, "a:relevances k:k?", "n")                                                                 \
    X(mrr, "m:rankings", "n")                                                                         \
    /* numbers_series.c: information, series, combinatorics */                                        \
    X(entropy, "d:probs", "n")                                                                        \
    X(kl_divergence, "d:p d:q", "n")                                                                  \
    X(js_divergence, "d:p d:q", "n")                                                                  \
    X(cross_entropy, "d:p d:q", "n")                                                                  \
    X(moving_average, "a:values k:window", "a")                                                       \
    X(ewma, "a:values q:alpha", "a")                                                                  \
    X(autocorrelation, "a:values u:lag", "n")                                                         \
    X(permutations, "u:n u:k?", "#")

#define HF_DECLARE(name, takes, gives) const char *hf_math_##name(hf_calculation *c);
HF_MATH(HF_DECLARE)
#undef HF_DECLARE

#endif

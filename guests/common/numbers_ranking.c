/* The order of values: ranks, how much two orders agree, and how good an order of results is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

typedef struct {
    double first, second;
} pair;

static int compare(const void *left, const void *right) {
    const pair *a = left, *b = right;
    int order = (a->first > b->first) - (a->first < b->first);
    return order ? order : (a->second > b->second) - (a->second < b->second);
}

/* ---- ranks -------------------------------------------------------------------------------------------------------------------------- */

hf_list hf_ranks(hf_calculation *c, const hf_list *list, double *ties) {
    pair *pairs = (pair *)hf_room(c, 2 * (uint64_t)list->count);
    hf_list ranks = hf_new_list(c, list->count);
    for (uint32_t i = 0; i < list->count; i++) pairs[i] = (pair){list->values[i], i};
    qsort(pairs, list->count, sizeof *pairs, compare);
    *ties = 0;
    for (uint32_t i = 0, end; i < list->count; i = end) {
        for (end = i + 1; end < list->count && pairs[end].first == pairs[i].first;) end++;
        double size = end - i;
        *ties += size * size * size - size;
        for (uint32_t j = i; j < end; j++) ranks.values[(uint32_t)pairs[j].second] = ((double)i + 1 + end) / 2;
    }
    return ranks;
}

const char *hf_math_rank(hf_calculation *c) {
    double ties;
    c->lists[0] = hf_ranks(c, &c->in[0].list, &ties);
    return NULL;
}

const char *hf_math_spearman_correlation(hf_calculation *c) {
    double ties;
    hf_list xs = hf_ranks(c, &c->in[0].list, &ties), ys = hf_ranks(c, &c->in[1].list, &ties);
    return hf_correlate(c, &xs, &ys);
}

/* ---- agreement ---------------------------------------------------------------------------------------------------------------------- */

/* Sorts `values`, and counts the pairs that were in the wrong order. */
static double sort_and_count(double *values, double *room, uint32_t count) {
    double swaps = 0;
    for (uint64_t width = 1; width < count; width *= 2) {
        for (uint64_t start = 0; start < count; start += 2 * width) {
            uint64_t middle = start + width < count ? start + width : count, end = middle + width < count ? middle + width : count;
            uint64_t i = start, j = middle;
            for (uint64_t at = start; at < end; at++) {
                bool right = i == middle || (j < end && values[j] < values[i]);
                if (right && i < middle) swaps += (double)(middle - i);
                room[at] = right ? values[j++] : values[i++];
            }
        }
        memcpy(values, room, count * sizeof(double));
    }
    return swaps;
}

static double pairs_in(double count) { return count * (count - 1) / 2; }

/* Tau-b, by the method of Knight: after sorting by x, the pairs that disagree are those that sorting by y must swap. */
const char *hf_math_kendall_tau(hf_calculation *c) {
    const hf_list *xs = &c->in[0].list, *ys = &c->in[1].list;
    const char *problem = hf_are_pairs(xs, ys);
    if (problem) return problem;
    uint32_t count = xs->count;
    pair *pairs = (pair *)hf_room(c, 2 * (uint64_t)count);
    double *seconds = hf_room(c, count), *room = hf_room(c, count), same_x = 0, same_y = 0, same = 0;
    for (uint32_t i = 0; i < count; i++) pairs[i] = (pair){xs->values[i], ys->values[i]};
    qsort(pairs, count, sizeof *pairs, compare);
    for (uint32_t i = 0, run_x = 0, run = 0; i < count; i++) {
        seconds[i] = pairs[i].second;
        run_x = i && pairs[i].first == pairs[i - 1].first ? run_x + 1 : 0;
        run = run_x && pairs[i].second == pairs[i - 1].second ? run + 1 : 0;
        same_x += run_x;
        same += run;
    }
    double disagree = sort_and_count(seconds, room, count);
    for (uint32_t i = 1, run_y = 0; i < count; i++) {
        run_y = seconds[i] == seconds[i - 1] ? run_y + 1 : 0;
        same_y += run_y;
    }
    double all = pairs_in(count), scale = sqrt(all - same_x) * sqrt(all - same_y);
    if (scale <= 0) return "of a constant array there is no correlation";
    c->out[0] = fmax(-1, fmin(1, (all - same_x - same_y + same - 2 * disagree) / scale));
    return NULL;
}

/* ---- results of a search ------------------------------------------------------------------------------------------------------------ */

static double gain(const hf_list *relevances, uint64_t places) {
    double sum = 0;
    for (uint32_t i = 0; i < relevances->count && i < places; i++) sum += relevances->values[i] / log2(i + 2.0);
    return sum;
}

const char *hf_math_ndcg(hf_calculation *c) {
    const hf_list *relevances = &c->in[0].list;
    uint64_t places = c->in[1].given ? (uint64_t)c->in[1].integer : relevances->count;
    hf_list best = hf_sorted(c, relevances);
    for (uint32_t i = 0, j = best.count - 1; i < j; i++, j--) {
        double moved = best.values[i];
        best.values[i] = best.values[j];
        best.values[j] = moved;
    }
    double most = gain(&best, places);
    c->out[0] = most > 0 ? gain(relevances, places) / most : 0;
    return NULL;
}

const char *hf_math_mrr(hf_calculation *c) {
    const hf_list *ranks = &c->in[0].list;
    double sum = 0;
    for (uint32_t i = 0; i < ranks->count; i++) sum += ranks->values[i] > 0 ? 1 / ranks->values[i] : 0;
    c->out[0] = sum / ranks->count;
    return NULL;
}

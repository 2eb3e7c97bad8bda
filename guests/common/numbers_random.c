/* Random numbers: ChaCha with 12 rounds, from a seed of 64 bits.
 *
 * The key is made of the seed by PCG: eight times the state becomes state * 6364136223846793005 + 11634580027462260723, starting from
 * the seed, and the output function XSH-RR gives a word of the key. The nonce is 0 and blocks are counted from 0 in 64 bits. Their
 * words are the stream; 64 bits are two words, the lower first. That is what StdRng of the Rust crate rand 0.9 does, so a seed gives
 * the numbers here that it gives there.
 *
 * A generator is only data of the script, so it is frozen, thawed and forked with everything else.
 */
#include "numbers.h"

/* ---- the stream --------------------------------------------------------------------------------------------------------------------- */

static uint32_t rotate(uint32_t word, int left) { return word << left | word >> (-left & 31); }

static void quarter(uint32_t *x, int a, int b, int c, int d) {
    x[a] += x[b], x[d] = rotate(x[d] ^ x[a], 16);
    x[c] += x[d], x[b] = rotate(x[b] ^ x[c], 12);
    x[a] += x[b], x[d] = rotate(x[d] ^ x[a], 8);
    x[c] += x[d], x[b] = rotate(x[b] ^ x[c], 7);
}

static void next_block(hf_rng *rng) {
    enum { ROUNDS = 12 };
    const uint32_t *key = rng->key;
    const uint32_t start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[0], key[1], key[2], key[3], key[4], key[5], key[6],
                                key[7],     (uint32_t)rng->next, (uint32_t)(rng->next >> 32), 0, 0};
    uint32_t *x = rng->block;
    for (int i = 0; i < 16; i++) x[i] = start[i];
    for (int i = 0; i < ROUNDS; i += 2) {
        for (int j = 0; j < 4; j++) quarter(x, j, 4 + j, 8 + j, 12 + j);
        for (int j = 0; j < 4; j++) quarter(x, j, 4 + (j + 1) % 4, 8 + (j + 2) % 4, 12 + (j + 3) % 4);
    }
    for (int i = 0; i < 16; i++) x[i] += start[i];
    rng->next++;
    rng->used = 0;
}

static void seed(hf_rng *rng, uint64_t state) {
    for (int i = 0; i < 8; i++) {
        state = state * 6364136223846793005u + 11634580027462260723u;
        rng->key[i] = rotate((uint32_t)((state >> 18 ^ state) >> 27), -(int)(state >> 59) & 31);
    }
    rng->next = 0;
    next_block(rng);
}

static uint32_t next_word(hf_rng *rng) {
    if (rng->used == 16) next_block(rng);
    return rng->block[rng->used++];
}

uint64_t hf_rng_bits(hf_rng *rng) {
    uint64_t low = next_word(rng);
    return low | (uint64_t)next_word(rng) << 32;
}

double hf_rng_unit(hf_rng *rng) { return ((double)(hf_rng_bits(rng) >> 12) + 0.5) * 0x1p-52; }

/* ---- integers ----------------------------------------------------------------------------------------------------------------------- */

/* The integer part of bound * U, where U is a fraction of endlessly many random bits: as many are drawn as it takes to know it, almost
 * always one draw. (The method is by Canon.) There is no bias. */
static uint32_t below_32(hf_rng *rng, uint32_t bound) {
    uint64_t product = (uint64_t)next_word(rng) * bound;
    uint32_t result = (uint32_t)(product >> 32), rest = (uint32_t)product;
    while (rest > -bound) {
        product = (uint64_t)next_word(rng) * bound;
        uint32_t sum = rest + (uint32_t)(product >> 32);
        if (sum < rest) return result + 1;
        if (sum != UINT32_MAX) break;
        rest = (uint32_t)product;
    }
    return result;
}

static uint64_t below_64(hf_rng *rng, uint64_t bound) {
    unsigned __int128 product = (unsigned __int128)hf_rng_bits(rng) * bound;
    uint64_t result = (uint64_t)(product >> 64), rest = (uint64_t)product;
    while (rest > -bound) {
        product = (unsigned __int128)hf_rng_bits(rng) * bound;
        uint64_t sum = rest + (uint64_t)(product >> 64);
        if (sum < rest) return result + 1;
        if (sum != UINT64_MAX) break;
        rest = (uint64_t)product;
    }
    return result;
}

/* ---- functions ---------------------------------------------------------------------------------------------------------------------- */

const char *hf_math_rng_create(hf_calculation *c) {
    seed(&c->rng, (uint64_t)c->in[0].integer);
    return NULL;
}

const char *hf_math_rng_float(hf_calculation *c) {
    c->out[0] = (double)(hf_rng_bits(c->in[0].rng) >> 11) * 0x1p-53;
    return NULL;
}

const char *hf_math_rng_int(hf_calculation *c) {
    int64_t low = c->in[1].integer, high = c->in[2].integer;
    if (low > high) return "min must not be greater than max";
    uint64_t bound = (uint64_t)high - (uint64_t)low + 1; /* 0: all of them */
    uint64_t above = bound ? below_64(c->in[0].rng, bound) : hf_rng_bits(c->in[0].rng);
    c->integer = (int64_t)((uint64_t)low + above);
    return NULL;
}

const char *hf_math_shuffle(hf_calculation *c) {
    hf_list order = c->lists[0] = hf_new_list(c, c->in[1].count);
    for (uint32_t i = 0; i < order.count; i++) order.values[i] = i;
    for (uint32_t i = order.count; i > 1; i--) {
        uint32_t other = below_32(c->in[0].rng, i);
        double moved = order.values[i - 1];
        order.values[i - 1] = order.values[other];
        order.values[other] = moved;
    }
    return NULL;
}

const char *hf_math_sample_with_replacement(hf_calculation *c) {
    enum { MOST = 1 << 26 };
    if (!c->in[1].count) return "values must not be empty";
    if (c->in[2].integer > MOST) return "n must be at most 67108864";
    hf_list picked = c->lists[0] = hf_new_list(c, (uint64_t)c->in[2].integer);
    for (uint32_t i = 0; i < picked.count; i++) picked.values[i] = below_32(c->in[0].rng, c->in[1].count);
    return NULL;
}

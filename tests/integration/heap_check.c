/* Random use of the guests' heap, checked from outside and inside. Built and run by test_heap.py. */
#include <string.h>

#include "abi.h"

enum { SLOTS = 512 };
static struct {
    unsigned char *payload;
    uint32_t size;
    unsigned char fill;
} slots[SLOTS];

static uint64_t state;
static uint32_t draw(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static uint32_t some_size(void) { return draw(20) ? draw(draw(4) ? 200 : 5000) : draw(300000); }

void hf_language_boot(void) {}
void hf_language_seed(uint64_t seed) { state = seed; }
void hf_language_stack(uint32_t kilobytes) { (void)kilobytes; }
void hf_language_settle(void) {}

static const char *wrong;
static void expect(int truth, const char *what) {
    if (!truth && !wrong) wrong = what;
}

static void check(int i, uint32_t size) {
    for (uint32_t at = 0; at < size; at++) expect(slots[i].payload[at] == slots[i].fill, "a block has lost its content");
}

static void fill(int i, uint32_t from) {
    expect(((uintptr_t)slots[i].payload & 7) == 0, "a block is not aligned");
    expect(hf_usable_size(slots[i].payload) >= slots[i].size, "a block is too small");
    for (uint32_t at = from; at < slots[i].size; at++) expect(slots[i].payload[at] == 0, "new memory is not zero");
    memset(slots[i].payload, slots[i].fill, slots[i].size);
}

void hf_language_step(enum hf_op op, const hf_part *parts, uint32_t count) {
    (void)op, (void)parts, (void)count;
    wrong = NULL;
    for (int round = 0; round < 20000; round++) {
        int i = (int)draw(SLOTS);
        if (!slots[i].payload) {
            slots[i].size = some_size();
            slots[i].fill = (unsigned char)(1 + draw(255));
            slots[i].payload = hf_malloc(slots[i].size);
            fill(i, 0);
        } else if (draw(3)) {
            check(i, slots[i].size);
            hf_free(slots[i].payload);
            slots[i].payload = NULL;
        } else {
            uint32_t before = slots[i].size;
            slots[i].size = some_size();
            slots[i].payload = hf_realloc(slots[i].payload, slots[i].size);
            uint32_t kept = before < slots[i].size ? before : slots[i].size;
            check(i, kept);
            fill(i, kept);
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        if (!slots[i].payload) continue;
        check(i, slots[i].size);
        hf_free(slots[i].payload);
        slots[i].payload = NULL;
    }
    hf_buffer record = {0};
    hf_put_text(&record, "[\"value\",\"string\",");
    hf_put_string(&record, wrong ? wrong : "fine", strlen(wrong ? wrong : "fine"));
    hf_put_text(&record, ",null]");
    hf_outcome(&record);
}

/* Memory that is zero wherever it is free.
 *
 * An image is a copy of the whole memory, so what a script dropped must not be readable in it and must not make it larger, and a
 * small step must touch few places. The toolchain's malloc rounds each block up to a power of two and keeps what was freed, so the
 * guests have their own.
 *
 * Theory of operation
 * -------------------
 * Blocks lie side by side. Each begins with a word, its size in bytes with two flags: whether it is free, and whether the one before
 * it is. A free block also holds two links of a list, and its size once more in its last word, by which a neighbour finds its start.
 * Everything else in it is zero. Blocks start four bytes before a multiple of eight, so that what the caller gets is aligned.
 *
 *     in use   | size      | payload ...                          |
 *     free     | size|FREE | next | previous | 0 0 0 ... 0 | size |
 *
 * Free blocks are kept in lists by size: sixteen lists for each power of two, with bitmaps of those that are not empty, so finding
 * one takes the same few steps whatever the heap looks like. Neighbours are joined at once.
 */
#include <string.h>

#include "abi.h"

enum {
    FREE = 1,        /* this block */
    BEFORE_FREE = 2, /* the block before this one */
    FLAGS = FREE | BEFORE_FREE,
    WORD = 4,
    SMALLEST = 16, /* room for the four words of a free block */
    LINEAR = 128,  /* below, a list for each multiple of eight */
    COLUMNS = 16,
    ROWS = 26,
    GROWTH = 1 << 18, /* the memory grows by at least this, if it may */
    WASM_PAGE = 65536,
};

typedef struct block {
    uint32_t head;
    struct block *next, *previous; /* only in a free block */
} block;

static block *lists[ROWS][COLUMNS];
static uint32_t rows;           /* rows that have a block */
static uint16_t columns[ROWS]; /* and their columns */
static char *end;              /* of the last region */

static uint32_t size_of(const block *b) { return b->head & ~(uint32_t)FLAGS; }
static block *after(block *b) { return (block *)((char *)b + size_of(b)); }
static uint32_t *last_word(block *b) { return (uint32_t *)((char *)b + size_of(b)) - 1; }
static block *from_payload(const void *payload) { return (block *)((char *)payload - WORD); }
static void *payload_of(block *b) { return (char *)b + WORD; }

/* ---- lists ------------------------------------------------------------------------------------------------------------------- */

static void place(uint32_t size, uint32_t *row, uint32_t *column) {
    if (size < LINEAR) {
        *row = 0;
        *column = size / 8;
    } else {
        uint32_t power = 31 - (uint32_t)__builtin_clz(size);
        *row = power - 6;
        *column = size >> (power - 4) ^ COLUMNS;
    }
}

static void insert(block *b) {
    uint32_t row, column;
    place(size_of(b), &row, &column);
    block *head = lists[row][column];
    b->next = head;
    b->previous = NULL;
    if (head) head->previous = b;
    lists[row][column] = b;
    rows |= 1u << row;
    columns[row] |= (uint16_t)(1u << column);
    b->head |= FREE;
    *last_word(b) = size_of(b);
    after(b)->head |= BEFORE_FREE;
}

/* Takes a block out of its list and makes it zero again, but for its head. */
static void extract(block *b) {
    uint32_t row, column;
    place(size_of(b), &row, &column);
    if (b->next) b->next->previous = b->previous;
    if (b->previous)
        b->previous->next = b->next;
    else if (!(lists[row][column] = b->next) && !(columns[row] &= (uint16_t) ~(1u << column)))
        rows &= ~(1u << row);
    b->next = b->previous = NULL;
    *last_word(b) = 0;
    b->head &= ~(uint32_t)FREE;
    after(b)->head &= ~(uint32_t)BEFORE_FREE;
}

/* The last resort: a block that is large enough in the list of its like, where others are too small. The one that memory has just
 * been grown for may lie there, and without it the memory would have to be a sixteenth larger than what is asked for. */
static block *search(uint32_t size) {
    uint32_t row, column;
    place(size, &row, &column);
    block *b = lists[row][column];
    while (b && size_of(b) < size) b = b->next;
    if (b) extract(b);
    return b;
}

/* A block of at least this size, out of its list. */
static block *find(uint32_t size) {
    uint32_t row, column, rounded = size;
    if (size >= LINEAR) rounded += (1u << (27 - __builtin_clz(size))) - 1; /* any block of the next list is large enough */
    if (rounded < size) return NULL;
    place(rounded, &row, &column);
    uint32_t fitting = row < ROWS ? columns[row] & (~0u << column) : 0;
    if (!fitting) {
        uint32_t above = row + 1 < ROWS ? rows & (~0u << (row + 1)) : 0;
        if (!above) return search(size);
        row = (uint32_t)__builtin_ctz(above);
        fitting = columns[row];
    }
    block *b = lists[row][__builtin_ctz(fitting)];
    extract(b);
    return b;
}

/* ---- blocks -------------------------------------------------------------------------------------------------------------------- */

/* Gives back what lies behind the first `size` bytes of a block in use. That part is zero. */
static void trim(block *b, uint32_t size) {
    uint32_t rest = size_of(b) - size;
    if (rest < SMALLEST) return;
    b->head = size | (b->head & BEFORE_FREE);
    block *tail = after(b);
    tail->head = rest;
    block *next = after(tail);
    if (next->head & FREE) {
        extract(next);
        tail->head += size_of(next);
        next->head = 0;
    }
    insert(tail);
}

/* Makes a block that is in no list, and zero, available again. */
static void release(block *b) {
    block *next = after(b);
    if (next->head & FREE) {
        extract(next);
        b->head += size_of(next);
        next->head = 0;
    }
    if (b->head & BEFORE_FREE) {
        block *before = (block *)((char *)b - ((uint32_t *)b)[-1]);
        extract(before);
        before->head += size_of(b);
        b->head = 0;
        b = before;
    }
    insert(b);
}

/* More memory: the last region grows, unless somebody else has grown the memory meanwhile. */
static int grow(uint32_t size) {
    uint32_t needed = size + 2 * WORD + 8;
    if (needed < size) return 0;
    uint32_t pages = ((needed > GROWTH ? needed : GROWTH) + WASM_PAGE - 1) / WASM_PAGE;
    size_t at = __builtin_wasm_memory_grow(0, pages);
    if (at == SIZE_MAX) {
        pages = (needed + WASM_PAGE - 1) / WASM_PAGE;
        at = __builtin_wasm_memory_grow(0, pages);
        if (at == SIZE_MAX) return 0;
    }
    char *start = (char *)(at * WASM_PAGE), *stop = start + pages * WASM_PAGE;
    block *b;
    if (end == start)
        b = (block *)(end - WORD); /* the word that closed the region */
    else {
        b = (block *)(start + WORD);
        b->head = 0;
    }
    b->head = (uint32_t)(stop - WORD - (char *)b) | (b->head & BEFORE_FREE);
    after(b)->head = 0; /* closes the region: in use, and without size */
    end = stop;
    release(b);
    return 1;
}

static uint32_t block_size(size_t size) {
    if (size > UINT32_MAX - 64) return 0;
    uint32_t needed = ((uint32_t)size + WORD + 7) & ~7u;
    return needed < SMALLEST ? SMALLEST : needed;
}

static void *take(size_t size) {
    uint32_t needed = block_size(size);
    if (!needed) return NULL;
    block *b = find(needed);
    if (!b && grow(needed)) b = find(needed);
    if (!b) return NULL;
    trim(b, needed);
    return payload_of(b);
}

/* Gives up the small holes that boot and libraries have left all over a template. What a session makes then lies together on pages
 * of its own, instead of in holes on pages that it would have to copy for them: a third of the private memory, and smaller images. */
void hf_heap_seal(void) {
    enum { HOLE = 16384 };
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t column = 0; column < COLUMNS; column++)
            for (block *b = lists[row][column], *next; b; b = next) {
                next = b->next;
                if (size_of(b) < HOLE) extract(b);
            }
}

/* ---- what the guests call ------------------------------------------------------------------------------------------------------ */

size_t hf_usable_size(const void *payload) { return payload ? size_of(from_payload(payload)) - WORD : 0; }

void hf_free(void *payload) {
    if (!payload) return;
    memset(payload, 0, hf_usable_size(payload));
    release(from_payload(payload));
}

void *hf_try_realloc(void *payload, size_t size) {
    if (!payload) return take(size);
    block *b = from_payload(payload);
    uint32_t needed = block_size(size), had = size_of(b);
    if (!needed) return NULL;
    if (needed <= had) {
        memset((char *)payload + size, 0, had - WORD - size);
        trim(b, needed);
        return payload;
    }
    block *next = after(b);
    if (next->head & FREE && needed - had <= size_of(next)) {
        extract(next);
        b->head += size_of(next);
        next->head = 0;
        trim(b, needed);
        return payload;
    }
    void *moved = take(size);
    if (!moved) return NULL;
    memcpy(moved, payload, had - WORD);
    hf_free(payload);
    return moved;
}

static _Noreturn void exhausted(size_t size) {
    uint64_t used = (uint64_t)__builtin_wasm_memory_size(0) * WASM_PAGE;
    uint64_t grown = ((uint64_t)size + 2 * WORD + 8 + WASM_PAGE - 1) / WASM_PAGE * WASM_PAGE;
    hf_breach(HF_MEMORY, used, used + grown);
}

void *hf_malloc(size_t size) {
    void *payload = take(size);
    if (!payload) exhausted(size);
    return payload;
}

void *hf_calloc(size_t count, size_t size) { /* what was free is zero */
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) exhausted(SIZE_MAX);
    return hf_malloc(total);
}

void *hf_realloc(void *payload, size_t size) {
    void *moved = hf_try_realloc(payload, size);
    if (!moved) exhausted(size);
    return moved;
}

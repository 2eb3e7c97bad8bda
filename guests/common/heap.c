/* Memory that is zeroed when it is freed.
 *
 * An image is a copy of the whole memory, so what a script dropped must not be readable in it, and must not make it larger.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

/* The optimiser removes a memset of memory that is freed next, unless something may look at it in between. */
static void zero(void *block, size_t size) {
    memset(block, 0, size);
    __asm__ volatile("" : : "r"(block) : "memory");
}

static _Noreturn void exhausted(size_t size) {
    uint64_t used = (uint64_t)__builtin_wasm_memory_size(0) * 65536;
    hf_breach(HF_MEMORY, used, used + size);
}

size_t hf_usable_size(const void *block) { return block ? malloc_usable_size((void *)block) : 0; }

void hf_free(void *block) {
    if (!block) return;
    zero(block, malloc_usable_size(block));
    free(block);
}

void *hf_try_realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    size_t usable = malloc_usable_size(block);
    if (size <= usable && size > usable / 2) { /* stays where it is, without its tail */
        zero((char *)block + size, usable - size);
        return block;
    }
    void *moved = malloc(size);
    if (!moved) return NULL;
    memcpy(moved, block, usable < size ? usable : size);
    hf_free(block);
    return moved;
}

void *hf_malloc(size_t size) {
    void *block = malloc(size ? size : 1);
    if (!block) exhausted(size);
    return block;
}

void *hf_calloc(size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) exhausted(SIZE_MAX);
    return memset(hf_malloc(total), 0, total);
}

void *hf_realloc(void *block, size_t size) {
    void *moved = hf_try_realloc(block, size ? size : 1);
    if (!moved) exhausted(size);
    return moved;
}

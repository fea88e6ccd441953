/* An arena: scratch memory that a thread uses again and again, so that no call pays for fresh pages.
 *
 * An arena is one block. If a function needs more, the arena adds blocks; the next reset replaces all of them by one
 * block that is large enough. Before, the page faults of fresh buffers took 7.8 us an item.
 */
#include "core.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };
/* A reset gives back a block above this size: one huge text must not keep its memory. */
static const int64_t MOST_KEPT = 64 << 20;
static const int64_t FIRST_BLOCK = 1 << 20;

/* The begin of a block; it takes ALIGNMENT of the block's bytes. */
typedef struct block {
    struct block *before;
    int64_t size, used;
} block;

struct arena {
    block *last;
    uint64_t secret;
    bool has_failed;
};

static bool add_block(arena *scratch, int64_t size) {
    block *added = aligned_alloc(ALIGNMENT, (size_t)size);
    if (!added) return false;
    *added = (block){scratch->last, size, ALIGNMENT};
    scratch->last = added;
    return true;
}

static void drop_blocks(arena *scratch) {
    for (block *one = scratch->last, *before; one; one = before) {
        before = one->before;
        free(one);
    }
    scratch->last = NULL;
}

arena *arena_new(uint64_t secret) {
    arena *made = calloc(1, sizeof(arena));
    if (made) made->secret = secret;
    return made;
}

void arena_free(arena *scratch) {
    if (scratch) drop_blocks(scratch);
    free(scratch);
}

void arena_reset(arena *scratch) {
    block *last = scratch->last;
    scratch->has_failed = false;
    if (last && !last->before && last->size <= MOST_KEPT) {
        last->used = ALIGNMENT;
        return;
    }
    int64_t total = 0;
    for (const block *one = last; one; one = one->before) total += one->size;
    drop_blocks(scratch);
    if (total && total <= MOST_KEPT) add_block(scratch, total); /* if this fails, the next take reports it */
}

void *arena_take(arena *scratch, int64_t count, size_t size) {
    int64_t bytes = 0, most = INT64_MAX - 2 * ALIGNMENT;
    bool is_possible = count >= 0 && !__builtin_mul_overflow(count, (int64_t)size, &bytes) && bytes <= most;
    if (is_possible) {
        bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        block *last = scratch->last;
        bool has_room = last && last->size - last->used >= bytes;
        int64_t doubled = last ? 2 * last->size : FIRST_BLOCK;
        is_possible = has_room || add_block(scratch, max_i64(doubled, bytes + ALIGNMENT)) ||
                      add_block(scratch, bytes + ALIGNMENT);
    }
    if (!is_possible) {
        scratch->has_failed = true;
        return NULL;
    }
    block *last = scratch->last;
    void *taken = (uint8_t *)last + last->used;
    last->used += bytes;
    return taken;
}

bool arena_has_failed(const arena *scratch) { return scratch->has_failed; }

uint64_t arena_secret(const arena *scratch) { return scratch->secret; }

void *arena_grow(arena *scratch, void *array, int64_t *room, int64_t used, int64_t more, size_t size) {
    if (used + more <= *room) return array;
    *room = max_i64(used + more, *room + *room / 2);
    void *grown = arena_take(scratch, *room, size);
    if (grown && used) memcpy(grown, array, (size_t)used * size);
    return grown;
}

/* The version of what core.h declares: build.py takes it from VERSION in __init__.py. */
CORE_API int64_t core_version(void) { return SOURCES_VERSION; }

/* In place of memory.c in the checked core: each array is an allocation of its own, so that the address sanitizer sees
 * an overflow from one array into the next, and the use of an array after the reset. */
#include "core.h"

#include <stdlib.h>

typedef struct array {
    struct array *before;
    void *data;
} array;

struct arena {
    array *last;
    uint64_t secret;
    bool has_failed;
};

static void drop(arena *scratch) {
    for (array *one = scratch->last, *before; one; one = before) {
        before = one->before;
        free(one->data);
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
    if (scratch) drop(scratch);
    free(scratch);
}

void arena_reset(arena *scratch) {
    drop(scratch);
    scratch->has_failed = false;
}

void *arena_take(arena *scratch, int64_t count, size_t size) {
    int64_t bytes = 0;
    array *one = malloc(sizeof *one);
    void *data = NULL;
    if (count >= 0 && !__builtin_mul_overflow(count, (int64_t)size, &bytes) && bytes <= INT64_MAX / 4)
        data = malloc((size_t)bytes);
    if (!one || !data) {
        free(one);
        free(data);
        scratch->has_failed = true;
        return NULL;
    }
    *one = (array){scratch->last, data};
    scratch->last = one;
    return data;
}

bool arena_has_failed(const arena *scratch) { return scratch->has_failed; }

uint64_t arena_secret(const arena *scratch) { return scratch->secret; }

void *arena_grow(arena *scratch, void *data, int64_t *room, int64_t used, int64_t more, size_t size) {
    if (used + more <= *room) return data;
    *room = max_i64(used + more, *room + *room / 2);
    void *grown = arena_take(scratch, *room, size);
    if (grown && used) memcpy(grown, data, (size_t)used * size);
    return grown;
}

CORE_API int64_t core_version(void) { return SOURCES_VERSION; }

/* The compiled core: every struct and function that its files share.
 *
 * Files follow the path of an item: text.c folds and tokenises, fingerprint.c makes shingles, sketches and keys,
 * index.c looks keys up, similarity.c compares two items, judge.c decides, pairs.c compares whole sets.
 *
 * Rules. A function gets pointers with lengths and keeps nothing: no global state. Scratch memory comes from an `arena`
 * that the caller owns. A function that Python calls is marked CORE_API and returns a count, or a negative `core_error`.
 * Machines are little-endian. A record that is stored (a row of SIMILARITY, of SUBJECT) has the layout of numpy's
 * aligned dtype of the same name; tests/core/test_layout.py compares them.
 */
#ifndef CORE_H
#define CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CORE_API __attribute__((visibility("default")))

/* ---- errors ---- */

typedef enum {
    CORE_NO_MEMORY = -1, /* the arena could not grow */
    CORE_BAD_SIZE = -2,  /* a size or position from outside does not fit its array */
} core_error;

/* ---- memory (memory.c) ---- */

/* Scratch memory of one thread. What a function takes lives until the exported function that took it returns. */
typedef struct arena arena;

CORE_API arena *arena_new(void);
CORE_API void arena_free(arena *scratch);
/* Begin an exported function: all that was taken before is free again. */
void arena_reset(arena *scratch);
/* `count` items of `size` bytes, aligned to 64 bytes and not cleared; NULL if there is no memory. */
void *arena_take(arena *scratch, int64_t count, size_t size);

/* The version of what this header declares: see VERSION in __init__.py. */
CORE_API int64_t core_version(void);

/* ---- bits ---- */

#define GOLDEN 0x9E3779B97F4A7C15ull /* 2^64 divided by the golden ratio: Knuth, volume 3, section 6.4 */
#define MIX_1 0xFF51AFD7ED558CCDull  /* the multipliers of MurmurHash3's finaliser, Appleby 2011 */
#define MIX_2 0xC4CEB9FE1A85EC53ull
#define FNV_PRIME 0x100000001B3ull /* FNV-1a: Fowler, Noll, Vo */

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* MurmurHash3's 64-bit finaliser: every input bit affects every output bit. */
static inline uint64_t mix(uint64_t hash) {
    hash = (hash ^ (hash >> 33)) * MIX_1;
    hash = (hash ^ (hash >> 33)) * MIX_2;
    return hash ^ (hash >> 33);
}

/* The upper half of a hash, never 0. */
static inline uint32_t narrowed(uint64_t hash) {
    uint32_t upper = (uint32_t)(hash >> 32);
    return upper ? upper : 1;
}

/* Eight bytes from any address, the first byte lowest. */
static inline uint64_t load64(const uint8_t *from) {
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

static inline int64_t trailing_zeros(uint64_t word) { return word ? __builtin_ctzll(word) : 64; }
static inline int64_t bit_count(uint64_t word) { return __builtin_popcountll(word); }

#endif

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
/* In plain arithmetic, which gcc vectorises: without -mpopcnt the builtin is a call. */
static inline uint32_t bit_count32(uint32_t word) {
    word -= word >> 1 & 0x55555555;
    word = (word & 0x33333333) + (word >> 2 & 0x33333333);
    word = (word + (word >> 4)) & 0x0F0F0F0F;
    word += word >> 8;
    return (word + (word >> 16)) & 63;
}

static inline int64_t bit_count(uint64_t word) { return __builtin_popcountll(word); }

/* ---- times and windows (index.c, judge.c) ---- */

/* The time of a row whose time is doubted, and of one that is forgotten: index/times.py. */
#define ANY_TIME INT64_MAX
#define FORGOTTEN INT64_MIN

/* Which rows count for an item: a row of index.times.Windows. From row RECENT on, rows with a time from LOW to HIGH or
 * with ANY_TIME; before it, from OLD_LOW to OLD_HIGH. All inclusive. */
enum { RECENT, LOW, HIGH, OLD_LOW, OLD_HIGH, WINDOW_SIZE };

/* Whether a row with this time counts for an item: the one place that applies its window. */
static inline bool is_visible(int64_t time, bool is_recent, const int64_t *window) {
    if (is_recent) return (window[LOW] <= time && time <= window[HIGH]) || time == ANY_TIME;
    return window[OLD_LOW] <= time && time <= window[OLD_HIGH];
}

/* Steps of elapsed event time for which an arrival is recent: dedup/clocks.py. */
enum { RECENT_STEPS = 65 };

/* Whether an earlier item of the batch, with this step and time of clocks.Scope, counts for an item at step `now`. */
static inline bool is_in_window(int64_t step, int64_t time, int64_t now, const int64_t *window) {
    return is_visible(time, step >= now - RECENT_STEPS, window);
}

/* ---- index (index.c) ---- */

/* A pair that a lookup found is one word: the item from bit ITEM_SHIFT on, its row (counted from the first one that is
 * held) from ROW_SHIFT on, and below it the column of the item's key. */
enum { ROW_SHIFT = 12, ITEM_SHIFT = 44, COLUMN = (1 << ROW_SHIFT) - 1 };

/* Whether two keys of a table match: the `dont_care` lower bits, at most 31, may differ in `max_hamming` places.
 *
 * Key 0 means "none", so a fingerprint whose key would be 0 has key 1, one bit off. Therefore one more bit may differ
 * where the upper bits are all zero. With dont_care = 0 keys must be equal. */
static inline bool is_near(uint32_t key, uint32_t other, int64_t dont_care, int64_t max_hamming) {
    uint32_t differ = key ^ other;
    int64_t most = max_hamming + (key >> dont_care == 0);
    return differ >> dont_care == 0 && bit_count32(differ) <= most && key && other;
}

/* index.runs.Run: sorted tables over the rows base to end - 1. starts (tables + 1): where each begins in keys and
 * offsets; directory: of each table, one after the other. */
typedef struct {
    int64_t base, end, tables;
    const int64_t *starts;
    const uint32_t *keys, *offsets, *directory;
} run;

/* index.probe.Nearness: which keys match. first_columns (tables + 1): the first column of each table, and C;
 * dont_care (columns): the lower bits that may differ, 0 in an exact table. */
typedef struct {
    const int64_t *first_columns, *dont_care;
    int64_t columns, tables, max_hamming;
} nearness;

/* index.probe.Asked: a lookup for `items` items. queries (columns, items): 0 is no query; windows (items, WINDOW_SIZE);
 * times (rows): of the rows from `first` on; budgets (columns, items): the rows that each key may still give. words:
 * what was found, `count` of `room`. */
typedef struct {
    const uint32_t *queries;
    const int64_t *windows, *times;
    int32_t *budgets;
    int64_t *words;
    int64_t items, rows, first, count, room;
} lookup;

CORE_API int64_t run_sort(arena *scratch, const uint32_t *columns, int64_t rows, const int64_t *first_columns,
                          int64_t tables, int64_t *starts, uint32_t *keys, uint32_t *offsets);
CORE_API int64_t run_directory(const uint32_t *keys, const int64_t *starts, int64_t tables, uint32_t *directory);
CORE_API int64_t run_merge(const run *older, const run *newer, const uint8_t *alive, int64_t rows, int64_t *starts,
                           uint32_t *keys, uint32_t *offsets);
CORE_API int64_t run_unsort(arena *scratch, const uint32_t *keys, const uint32_t *offsets, int64_t count,
                            int64_t first_row, uint32_t *columns, int64_t width, int64_t rows);
CORE_API int64_t index_find(arena *scratch, const run *const *runs, int64_t run_count, const nearness *near,
                            lookup *asked);
CORE_API int64_t index_matches(const uint32_t *a, const uint32_t *b, int64_t rows, int64_t columns,
                               const int64_t *table_of, const int64_t *dont_care, int64_t max_hamming,
                               uint8_t *matching);
CORE_API int64_t filter_add(uint64_t *words, int64_t size, const uint32_t *keys, int64_t columns, int64_t rows,
                            const int64_t *table_of);
CORE_API int64_t filter_check(const uint64_t *words, int64_t size, const uint32_t *queries, int64_t columns,
                              int64_t items, const int64_t *table_of, int64_t *passed);

/* ---- clocks (clocks.c) ---- */

enum { RING_SIZE = 9 };

/* dedup.clocks.CLOCK: the state of a partition of the input. */
typedef struct {
    int32_t partition, weight;
    int64_t count, times[RING_SIZE];
} partition_clock;

/* dedup.clocks.Clocks.read: clocks (partitions); times, slots (items): stated times, and whose clock each item reads.
 * effective, odd, watermarks, elapsed (items): results. */
typedef struct {
    partition_clock *clocks;
    const int64_t *times, *slots;
    int64_t *effective, *watermarks, *elapsed;
    int8_t *odd;
    int64_t partitions, items, latest, window, watermark, total;
} clock_reading;

CORE_API int64_t clocks_read(arena *scratch, clock_reading *reading);

/* ---- pairs (pairs.c) ---- */

/* evaluate.exact: sets of ranks, the members of set i at bounds[i] to bounds[i + 1], and where each prefix ends. sizes:
 * with members of no other set; lists (ranks_shared + 1): where the posting list of each rank begins. */
typedef struct {
    const int32_t *ranks;
    const int64_t *bounds, *sizes, *ends, *lists;
    int64_t sets, ranks_shared;
} set_corpus;

/* What is searched, and found. first, second, jaccard (most): the pairs; nearest (sets): the nearest of each, or -1. */
typedef struct {
    const int64_t *order;
    int64_t *nearest, *first, *second;
    double *jaccard;
    int64_t ordered, most, comparisons, is_first_only;
    double floor, rounding;
} set_search;

CORE_API int64_t pairs_search(arena *scratch, const set_corpus *corpus, const set_search *search);

#endif

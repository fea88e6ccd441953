/* The index: sort keys into runs, merge runs, and find the rows that share a key with new items.
 *
 * A run is a set of sorted tables over consecutive rows (index/runs.py says why). A table holds keys, the row of each
 * (its offset in the run), and a directory: where the keys with given top bits begin. A lookup reads the directory and
 * scans a few keys: two cache misses for any number of rows. They dominate the cost, so it works table by table,
 * in blocks of independent reads.
 */
#include "core.h"

enum {
    KEY_BITS = 32,
    DIGITS = KEY_BITS / 8,
    /* With this many entries, both copies of the words fit into a second-level cache of 1 to 2 MB. */
    CACHED = 1 << 16,
    /* Queries per block. The reads of a block are independent, so the processor overlaps many cache misses; the scratch
     * of a block stays in the first cache. 32 to 512 measure the same. */
    BLOCK = 256,
    /* Above this many keys per directory entry, bisection is faster than a scan. Evenly distributed keys have 2 to 4;
     * only frequent keys and uneven ones (SimHash) have more. */
    MAX_SCAN = 16,
    /* Keys of a near bucket whose cache lines are read ahead, before any key of the block is compared. */
    PREFETCHED = 256,
    KEYS_OF_LINE = 64 / sizeof(uint32_t),
    FIRST_ROOM = 4096, /* pairs: a batch of 500 items usually finds fewer */
};

/* The number of top key bits in the directory of a table: runs.directory_bits. */
static int64_t directory_bits(int64_t entries) {
    int64_t bits = 1;
    while (entries >> (bits + 3)) bits++;
    return bits;
}

/* ---- sorting ---- */

/* While keys are sorted, a key and its row are one word, key << 32 | row: one stream of reads and writes, not two. */

/* Turn the counts of 256 values into the start of each. */
static void exclusive_sums(uint32_t *counts) {
    uint32_t total = 0;
    for (int64_t value = 0; value < 256; value++) {
        uint32_t count = counts[value];
        counts[value] = total;
        total += count;
    }
}

/* Sort words by the lowest `digits` bytes of their keys, stable; the last pass writes keys and offsets.
 *
 * Digits are bytes, because 256 write positions stay in the first cache, and small runs need not clear large counters.
 * The passes between alternate between the words and `other`, room for as many. */
static void sort_words(uint64_t *words, uint64_t *other, int64_t count, int64_t digits, uint32_t *restrict keys,
                       uint32_t *restrict offsets) {
    uint32_t places[DIGITS][256];
    memset(places, 0, sizeof places);
    for (int64_t i = 0; i < count; i++)
        for (int64_t digit = 0; digit < DIGITS; digit++) places[digit][words[i] >> (KEY_BITS + 8 * digit) & 255]++;
    for (int64_t digit = 0; digit < digits - 1; digit++) {
        uint64_t *from = words;
        exclusive_sums(places[digit]);
        for (int64_t i = 0; i < count; i++) other[places[digit][from[i] >> (KEY_BITS + 8 * digit) & 255]++] = from[i];
        words = other;
        other = from;
    }
    uint32_t *last = places[digits - 1];
    exclusive_sums(last);
    for (int64_t i = 0; i < count; i++) {
        uint32_t position = last[words[i] >> (KEY_BITS + 8 * (digits - 1)) & 255]++;
        keys[position] = (uint32_t)(words[i] >> KEY_BITS);
        offsets[position] = (uint32_t)words[i];
    }
}

/* Gather the words of a table row by row, without key 0, each part (of the keys' top byte) from its position in `parts`
 * on. Without `parts` all in one. Return their number. */
static int64_t gather(const uint32_t *columns, int64_t rows, int64_t width, uint32_t *parts, uint64_t *words) {
    int64_t count = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < width; column++) {
            uint32_t key = columns[column * rows + row];
            if (!key) continue;
            words[parts ? parts[key >> (KEY_BITS - 8)]++ : count] = (uint64_t)key << KEY_BITS | (uint64_t)row;
            count++;
        }
    return count;
}

/* Sort the keys of one table, without 0; return their number. words, other: room for all of them.
 *
 * Words are gathered by row, and the sort is stable, so offsets ascend within equal keys. A table that fits into the
 * second cache is sorted from the lowest byte on. A larger one is first partitioned by its top byte, and each of the
 * 256 parts is then sorted in the cache. Measured at 2 M rows, ns per key: 13, instead of 21 without partitioning. */
static int64_t sort_table(const uint32_t *columns, int64_t rows, int64_t width, uint64_t *words, uint64_t *other,
                          uint32_t *keys, uint32_t *offsets) {
    if (rows * width <= CACHED) {
        int64_t count = gather(columns, rows, width, NULL, words);
        sort_words(words, other, count, DIGITS, keys, offsets);
        return count;
    }
    uint32_t ends[256] = {0};
    for (int64_t i = 0; i < rows * width; i++) ends[columns[i] >> (KEY_BITS - 8)] += columns[i] != 0;
    exclusive_sums(ends);
    int64_t count = gather(columns, rows, width, ends, words);
    for (int64_t part = 0, start = 0; part < 256; start = ends[part++])
        sort_words(words + start, other, ends[part] - start, DIGITS - 1, keys + start, offsets + start);
    return count;
}

/* The size of the directories of all tables. */
static int64_t directories_size(const int64_t *starts, int64_t tables) {
    int64_t size = 0;
    for (int64_t t = 0; t < tables; t++) size += (1ll << directory_bits(starts[t + 1] - starts[t])) + 1;
    return size;
}

/* Sort the keys of each table in `columns` (C, rows), with `starts` (tables + 1) of each in the result; O(C rows).
 *
 * first_columns (tables + 1): the first column of each table, and C. keys, offsets: room for C * rows. Returns the size
 * of the directories. */
CORE_API int64_t run_sort(arena *scratch, const uint32_t *columns, int64_t rows, const int64_t *first_columns,
                          int64_t tables, int64_t *starts, uint32_t *keys, uint32_t *offsets) {
    arena_reset(scratch);
    int64_t widest = 0;
    for (int64_t t = 0; t < tables; t++) widest = max_i64(widest, first_columns[t + 1] - first_columns[t]);
    if (rows < 0 || rows > UINT32_MAX || widest * rows > UINT32_MAX) return CORE_BAD_SIZE;
    uint64_t *words = arena_take(scratch, 2 * widest * rows, sizeof *words);
    if (!words) return CORE_NO_MEMORY;
    starts[0] = 0;
    for (int64_t t = 0; t < tables; t++) {
        int64_t first = first_columns[t], width = first_columns[t + 1] - first, start = starts[t];
        starts[t + 1] = start + sort_table(columns + first * rows, rows, width, words, words + widest * rows,
                                           keys + start, offsets + start);
    }
    return directories_size(starts, tables);
}

/* The directory of one table: entry i is the first position whose key's top bits are at least i. */
static int64_t fill_directory(const uint32_t *keys, int64_t count, uint32_t *directory) {
    int64_t bits = directory_bits(count), size = (1ll << bits) + 1, entry = 0;
    for (int64_t position = 0; position < count; position++) {
        int64_t prefix = keys[position] >> (KEY_BITS - bits);
        while (entry <= prefix) directory[entry++] = (uint32_t)position;
    }
    while (entry < size) directory[entry++] = (uint32_t)count;
    return size;
}

/* Fill the directories of all tables, one after the other; return their size. */
CORE_API int64_t run_directory(const uint32_t *keys, const int64_t *starts, int64_t tables, uint32_t *directory) {
    int64_t size = 0;
    for (int64_t t = 0; t < tables; t++)
        size += fill_directory(keys + starts[t], starts[t + 1] - starts[t], directory + size);
    return size;
}

/* ---- merging ---- */

/* Merge one table of two runs; return the number of entries. shift: of the newer offsets; alive: NULL if all are.
 *
 * Of equal keys the older run's come first, so offsets ascend. The choice is arithmetic, because hashed keys make a
 * branch mispredict half the time. For the same reason a dead entry is written and then overwritten. */
static int64_t merge_table(const run *older, const run *newer, int64_t table, uint32_t shift, const uint8_t *alive,
                           uint32_t *keys, uint32_t *offsets) {
    int64_t a = older->starts[table], a_end = older->starts[table + 1], position = 0;
    int64_t b = newer->starts[table], b_end = newer->starts[table + 1];
    while (a < a_end && b < b_end) {
        uint32_t key_a = older->keys[a], key_b = newer->keys[b];
        uint32_t offset_a = older->offsets[a], offset_b = newer->offsets[b] + shift;
        bool is_second = key_b < key_a;
        uint32_t offset = is_second ? offset_b : offset_a;
        keys[position] = is_second ? key_b : key_a;
        offsets[position] = offset;
        a += !is_second;
        b += is_second;
        position += alive ? alive[offset] : 1;
    }
    bool is_second = a == a_end;
    const run *rest = is_second ? newer : older;
    int64_t end = is_second ? b_end : a_end;
    for (int64_t i = is_second ? b : a; i < end; i++) {
        uint32_t offset = rest->offsets[i] + (is_second ? shift : 0);
        keys[position] = rest->keys[i];
        offsets[position] = offset;
        position += alive ? alive[offset] : 1;
    }
    return position;
}

/* Merge two adjacent runs, with `starts` of each table in the result; O(entries).
 *
 * alive: of each of the `rows` rows of the range whether it is kept, or NULL for all. keys, offsets: room for the
 * entries of both. Returns the size of the directories. */
CORE_API int64_t run_merge(const run *older, const run *newer, const uint8_t *alive, int64_t rows, int64_t *starts,
                           uint32_t *keys, uint32_t *offsets) {
    if (older->tables != newer->tables || older->end > newer->base || newer->end - older->base != rows ||
        rows > UINT32_MAX)
        return CORE_BAD_SIZE;
    uint32_t shift = (uint32_t)(newer->base - older->base);
    starts[0] = 0;
    for (int64_t t = 0; t < older->tables; t++) {
        int64_t start = starts[t];
        starts[t + 1] = start + merge_table(older, newer, t, shift, alive, keys + start, offsets + start);
    }
    return directories_size(starts, older->tables);
}

/* Write the keys of one table to its `width` columns of `rows` keys, ascending in a row from the first column.
 *
 * first_row: of offset 0 in the columns; rows before the first are left out. */
CORE_API int64_t run_unsort(arena *scratch, const uint32_t *keys, const uint32_t *offsets, int64_t count,
                            int64_t first_row, uint32_t *columns, int64_t width, int64_t rows) {
    arena_reset(scratch);
    uint16_t *filled = arena_take(scratch, rows, sizeof *filled);
    if (!filled) return CORE_NO_MEMORY;
    memset(filled, 0, (size_t)rows * sizeof *filled);
    for (int64_t position = 0; position < count; position++) {
        int64_t row = offsets[position] + first_row;
        if (row < 0) continue;
        if (row >= rows || filled[row] >= width) return CORE_BAD_SIZE;
        columns[filled[row]++ * rows + row] = keys[position];
    }
    return count;
}

/* ---- lookups ---- */

/* One table of a run, with the column of its queries. */
typedef struct {
    const uint32_t *keys, *offsets, *directory;
    int64_t base, shift, column, dont_care, max_hamming; /* base: of the run, counted from the first row held */
} table;

/* Make room in `array`, of which `used` of `room` are used, for `more`. */
static bool reserve(arena *scratch, int64_t **array, int64_t *room, int64_t used, int64_t more) {
    if (used + more <= *room) return true;
    int64_t larger = max_i64(max_i64(FIRST_ROOM, 2 * *room), used + more);
    int64_t *taken = arena_take(scratch, larger, sizeof *taken);
    if (!taken) return false;
    if (used) memcpy(taken, *array, (size_t)used * sizeof *taken);
    *array = taken;
    *room = larger;
    return true;
}

/* Whether a row, counted from the first that is held, counts for an item. Those before it are gone. */
static inline bool counts_for(const lookup *asked, int64_t row, int64_t item) {
    if ((uint64_t)row >= (uint64_t)asked->rows) return false;
    const int64_t *window = asked->windows + item * WINDOW_SIZE;
    return is_visible(asked->times[row], row + asked->first >= window[RECENT], window);
}

static inline int64_t word_of(int64_t item, int64_t row, int64_t column) {
    return item << ITEM_SHIFT | row << ROW_SHIFT | column;
}

/* What a block of queries of an exact table found: positions in the table, and of the hits the newest row. */
typedef struct {
    uint32_t low[BLOCK], high[BLOCK], last[BLOCK];
    int64_t hits[BLOCK], newest[BLOCK];
} exact_block;

/* The position after the last key, from `low` on, that is not above the query; *last becomes that key. */
static inline uint32_t position_after(const uint32_t *keys, uint32_t key, uint32_t low, uint32_t high, uint32_t *last) {
    if (high - low > MAX_SCAN) {
        uint32_t end = high;
        high = low;
        while (high < end) {
            uint32_t middle = high + (end - high) / 2;
            if (keys[middle] <= key)
                high = middle + 1;
            else
                end = middle;
        }
        *last = keys[high ? high - 1 : 0];
        return high;
    }
    while (high > low + 1 && *last > key) *last = keys[--high - 1];
    return high;
}

/* Find the newest row of each of up to BLOCK queries; return the number of hits.
 *
 * Four short loops: directory, last key of the entry, scan, row of each hit; `give_rows` is the fifth. In a single loop
 * the processor mispredicts the scan's branch about once per query, and the reads of the next query wait. Measured at
 * 1 M rows in one run, 30 tables, 500 items, us per item without a match: 1.1; in one loop 1.7; in one loop and item by
 * item 2.1. */
static int64_t find_newest(const table *of, const uint32_t *queries, int64_t count, exact_block *block) {
    for (int64_t j = 0; j < count; j++) {
        uint32_t entry = queries[j] >> of->shift;
        block->low[j] = of->directory[entry];
        block->high[j] = of->directory[entry + 1];
    }
    for (int64_t j = 0; j < count; j++) block->last[j] = of->keys[block->high[j] - (block->high[j] > 0)];
    int64_t hits = 0;
    for (int64_t j = 0; j < count; j++) {
        uint32_t key = queries[j], low = block->low[j], last = block->last[j];
        uint32_t high = position_after(of->keys, key, low, block->high[j], &last);
        block->high[j] = high;
        block->hits[hits] = j;
        hits += high > low && last == key && key;
    }
    for (int64_t h = 0; h < hits; h++) block->newest[h] = of->base + of->offsets[block->high[block->hits[h]] - 1];
    return hits;
}

/* Give an item the rows of its key, the newest first, until its budget is used up. `position` is after the newest. */
static bool give_rows(arena *scratch, const table *of, uint32_t position, int64_t newest, int64_t item, int64_t column,
                      lookup *asked) {
    int32_t *budget = asked->budgets + column * asked->items + item;
    uint32_t key = of->keys[position - 1];
    int64_t row = newest, before = -1;
    while (*budget > 0) {
        /* Two columns of a row may hold the same key. */
        if (row != before && counts_for(asked, row, item)) {
            if (!reserve(scratch, &asked->words, &asked->room, asked->count, 1)) return false;
            asked->words[asked->count++] = word_of(item, row, column);
            --*budget;
        }
        if (--position == 0 || of->keys[position - 1] != key) break;
        before = row;
        row = of->base + of->offsets[position - 1];
    }
    return true;
}

/* Probe one exact table. All queries of a table are one row, whichever their column. */
static bool probe_exact(arena *scratch, const table *of, int64_t width, lookup *asked) {
    exact_block block;
    const uint32_t *queries = asked->queries + of->column * asked->items;
    int64_t total = width * asked->items;
    for (int64_t start = 0; start < total; start += BLOCK) {
        int64_t hits = find_newest(of, queries + start, min_i64(BLOCK, total - start), &block);
        for (int64_t h = 0; h < hits; h++) {
            int64_t item = start + block.hits[h], column = of->column;
            while (item >= asked->items) { /* faster than dividing: most tables have one column */
                item -= asked->items;
                column++;
            }
            uint32_t position = block.high[block.hits[h]];
            if (!give_rows(scratch, of, position, block.newest[h], item, column, asked)) return false;
        }
    }
    return true;
}

/* Let `row` sink from position `at` of a heap whose root is the lowest. */
static void sink(int64_t *heap, int64_t size, int64_t at, int64_t row) {
    for (int64_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
        child += child + 1 < size && heap[child + 1] < heap[child];
        if (heap[child] >= row) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = row;
}

/* Move the `most` highest of `count` rows to the front, in any order: a heap of those kept. */
static void keep_newest(int64_t *rows, int64_t count, int64_t most) {
    for (int64_t at = most / 2 - 1; at >= 0; at--) sink(rows, most, at, rows[at]);
    for (int64_t i = most; i < count && most; i++)
        if (rows[i] > rows[0]) sink(rows, most, 0, rows[i]);
}

/* The rows of a block of queries of a near table that match, so far as positions; `ends` of each query. */
typedef struct {
    uint32_t low[BLOCK], high[BLOCK];
    int64_t ends[BLOCK];
    int64_t room, *rows;
} near_block;

/* Append the positions from `low` to `high` whose keys match; return the new number of positions. */
static int64_t match_bucket(const uint32_t *keys, uint32_t low, uint32_t high, uint32_t key, const table *of,
                            int64_t *positions, int64_t found) {
    for (uint32_t position = low; position < high; position++) {
        positions[found] = position;
        found += is_near(key, keys[position], of->dont_care, of->max_hamming);
    }
    return found;
}

/* Find the rows that match each of up to BLOCK queries. Short loops, as for an exact table: bucket, reads ahead,
 * comparisons, rows. */
static bool find_near(arena *scratch, const table *of, const uint32_t *queries, const int32_t *budgets, int64_t count,
                      near_block *block) {
    uint32_t mask = (uint32_t)((1ull << of->dont_care) - 1);
    for (int64_t j = 0; j < count; j++) {
        bool is_asked = queries[j] && budgets[j] > 0;
        block->low[j] = of->directory[(queries[j] & ~mask) >> of->shift];
        block->high[j] = is_asked ? of->directory[((queries[j] | mask) >> of->shift) + 1] : block->low[j];
    }
    for (int64_t j = 0; j < count; j++)
        for (int64_t at = block->low[j]; at < min_i64(block->high[j], block->low[j] + PREFETCHED); at += KEYS_OF_LINE)
            __builtin_prefetch(of->keys + at);
    int64_t found = 0;
    for (int64_t j = 0; j < count; j++) {
        if (!reserve(scratch, &block->rows, &block->room, found, block->high[j] - block->low[j])) return false;
        found = match_bucket(of->keys, block->low[j], block->high[j], queries[j], of, block->rows, found);
        block->ends[j] = found;
    }
    for (int64_t h = 0; h < found; h++) block->rows[h] = of->base + of->offsets[block->rows[h]];
    return true;
}

/* Probe one near table, of one column. A bucket is sorted by key, not by row, so its live matches are collected, and
 * the newest of them chosen if there are more than the budget. */
static bool probe_near(arena *scratch, const table *of, lookup *asked) {
    near_block block = {.room = 0};
    int32_t *budgets = asked->budgets + of->column * asked->items;
    const uint32_t *queries = asked->queries + of->column * asked->items;
    for (int64_t start = 0; start < asked->items; start += BLOCK) {
        int64_t count = min_i64(BLOCK, asked->items - start), begin = 0;
        if (!find_near(scratch, of, queries + start, budgets + start, count, &block)) return false;
        for (int64_t j = 0; j < count; begin = block.ends[j++]) {
            int64_t item = start + j, alive = 0, *rows = block.rows + begin;
            for (int64_t h = 0; h < block.ends[j] - begin; h++) {
                rows[alive] = rows[h];
                alive += counts_for(asked, rows[h], item);
            }
            int64_t given = min_i64(alive, max_i64(budgets[item], 0));
            if (given < alive) keep_newest(rows, alive, given);
            if (!reserve(scratch, &asked->words, &asked->room, asked->count, given)) return false;
            for (int64_t h = 0; h < given; h++) asked->words[asked->count++] = word_of(item, rows[h], of->column);
            budgets[item] -= (int32_t)given;
        }
    }
    return true;
}

/* Find the rows of one run: one pass over its tables, O(C items) cache misses. */
static bool probe_run(arena *scratch, const run *of, const nearness *near, lookup *asked) {
    const uint32_t *directory = of->directory;
    for (int64_t t = 0; t < of->tables; t++) {
        int64_t start = of->starts[t], entries = of->starts[t + 1] - start, bits = directory_bits(entries);
        int64_t column = near->first_columns[t], width = near->first_columns[t + 1] - column;
        table one = {.keys = of->keys + start,
                     .offsets = of->offsets + start,
                     .directory = directory,
                     .base = of->base - asked->first,
                     .shift = KEY_BITS - bits,
                     .column = column,
                     .dont_care = near->dont_care[column],
                     .max_hamming = near->max_hamming};
        directory += (1ll << bits) + 1;
        if (!entries) continue;
        bool is_done = one.dont_care ? probe_near(scratch, &one, asked) : probe_exact(scratch, &one, width, asked);
        if (!is_done) return false;
    }
    return true;
}

/* Find the rows of `run_count` runs, the newest first, that share a key with an item and count for it; return the
 * number of words, which lie in the scratch memory until its next use. */
CORE_API int64_t index_find(arena *scratch, const run *const *runs, int64_t run_count, const nearness *near,
                            lookup *asked) {
    arena_reset(scratch);
    asked->count = asked->room = 0;
    if (near->columns > COLUMN + 1 || asked->items > 1ll << (63 - ITEM_SHIFT) ||
        asked->rows > 1ll << (ITEM_SHIFT - ROW_SHIFT))
        return CORE_BAD_SIZE;
    for (int64_t r = 0; r < run_count; r++) {
        if (runs[r]->tables != near->tables) return CORE_BAD_SIZE;
        if (!probe_run(scratch, runs[r], near, asked)) return CORE_NO_MEMORY;
    }
    return asked->count;
}

/* For keys `a` and `b` (rows, columns): whether each key of `a` matches one of `b` in its table. */
CORE_API int64_t index_matches(const uint32_t *a, const uint32_t *b, int64_t rows, int64_t columns,
                               const int64_t *table_of, const int64_t *dont_care, int64_t max_hamming,
                               uint8_t *matching) {
    for (int64_t row = 0; row < rows; row++, a += columns, b += columns, matching += columns)
        for (int64_t column = 0; column < columns; column++) {
            matching[column] = false;
            for (int64_t other = 0; other < columns; other++)
                if (table_of[other] == table_of[column])
                    matching[column] |= is_near(a[column], b[other], dont_care[column], max_hamming);
        }
    return rows;
}

/* ---- the Bloom filter before the recent tree ---- */

/* A hash of key and table, evenly distributed for keys of any family. Its low bits select a word of the filter. */
static inline uint64_t hash_of(uint32_t key, int64_t table) { return mix(key + (uint64_t)(table + 1) * GOLDEN); }

/* The four bits to set in a word, from the top four six-bit groups of the hash. */
static inline uint64_t pattern_of(uint64_t hash) {
    return 1ull << (hash >> 58) | 1ull << (hash >> 52 & 63) | 1ull << (hash >> 46 & 63) | 1ull << (hash >> 40 & 63);
}

/* Add the keys (columns, rows) of new rows to a filter of a power of two of words. */
CORE_API int64_t filter_add(uint64_t *words, int64_t size, const uint32_t *keys, int64_t columns, int64_t rows,
                            const int64_t *table_of) {
    for (int64_t column = 0; column < columns; column++)
        for (int64_t i = column * rows; i < (column + 1) * rows; i++) {
            uint64_t hash = hash_of(keys[i], table_of[column]);
            if (keys[i]) words[hash & (uint64_t)(size - 1)] |= pattern_of(hash);
        }
    return rows;
}

/* Write to `passed` the positions in the queries (columns, items) whose key may be in the tree; return their number. */
CORE_API int64_t filter_check(const uint64_t *words, int64_t size, const uint32_t *queries, int64_t columns,
                              int64_t items, const int64_t *table_of, int64_t *passed) {
    int64_t count = 0;
    for (int64_t column = 0; column < columns; column++)
        for (int64_t i = column * items; i < (column + 1) * items; i++) {
            uint64_t hash = hash_of(queries[i], table_of[column]), bits = pattern_of(hash);
            passed[count] = i;
            count += (words[hash & (uint64_t)(size - 1)] & bits) == bits && queries[i];
        }
    return count;
}

/* The index: sort keys into runs, merge runs, and find the rows that share a key with new items.
 *
 * A run is a set of sorted tables over consecutive rows (index/runs.py says why). A table holds keys, the row of each
 * (its offset in the run), and a directory: where the keys with given top bits begin. A lookup reads the directory and
 * scans a few keys: two cache misses for any number of rows. They dominate the cost, so it works table by table,
 * in blocks of independent reads.
 */
#include "core.h"

enum {
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
    FIRST_ROOM = 4096, /* hits: a batch of 500 items usually finds fewer */
};

/* The number of top key bits in the directory of a table: runs.directory_bits. */
static int64_t directory_bits(int64_t entries) {
    int64_t bits = 1;
    while (entries >> (bits + 3)) bits++;
    return bits;
}

/* Fill the directories of all tables, one after the other; return their size. Entry i of a directory is the first
 * position whose key's top bits are at least i. */
static int64_t fill_directories(const uint32_t *keys, const int64_t *starts, int64_t tables, uint32_t *directory) {
    uint32_t *out = directory;
    for (int64_t table = 0; table < tables; table++) {
        const uint32_t *first = keys + starts[table];
        int64_t count = starts[table + 1] - starts[table], bits = directory_bits(count);
        uint32_t *begin = out, *end = out + (1ll << bits) + 1;
        for (int64_t position = 0; position < count; position++) {
            const uint32_t *last = begin + (first[position] >> (KEY_BITS - bits));
            while (out <= last) *out++ = (uint32_t)position;
        }
        while (out < end) *out++ = (uint32_t)count;
    }
    return out - directory;
}

/* ---- sorting ---- */

uint64_t *sort_words(uint64_t *words, uint64_t *other, int64_t count, int first, int end) {
    for (int shift = 8 * first; shift < 8 * end; shift += 8) {
        uint32_t places[257] = {0}; /* of each value: how many words have a lower one, and then the next position */
        uint64_t *sorted = other;
        for (int64_t i = 0; i < count; i++) places[1 + (words[i] >> shift & 255)]++;
        for (int value = 0; value < 255; value++) places[value + 1] += places[value];
        for (int64_t i = 0; i < count; i++) sorted[places[words[i] >> shift & 255]++] = words[i];
        other = words;
        words = sorted;
    }
    return words;
}

/* Sort the keys of one table, without 0; return their number. words, other: room for all of them.
 *
 * While keys are sorted, a key and its row are one word, key << 32 | row: one stream of reads and writes, not two.
 * Words are gathered by row, and the sort is stable, so offsets ascend within equal keys. A table that fits into the
 * second cache is sorted from the lowest byte on. A larger one is first partitioned by its top byte, and each of the
 * 256 parts is then sorted in the cache. Measured at 2 M rows, ns per key: 13, instead of 21 without partitioning. */
static int64_t sort_table(const uint32_t *columns, int64_t rows, int64_t width, uint64_t *words, uint64_t *other,
                          uint32_t *keys, uint32_t *offsets) {
    int64_t count = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < width; column++) {
            uint64_t key = columns[column * rows + row];
            words[count] = key << KEY_BITS | (uint64_t)row;
            count += key != 0;
        }
    if (count <= CACHED) {
        sort_words(words, other, count, 4, 8); /* an even number of bytes: they are in `words` again */
    } else {
        const uint64_t *parts = sort_words(words, other, count, 7, 8);
        for (int64_t start = 0, end = 0; start < count; start = end) {
            while (end < count && parts[end] >> 56 == parts[start] >> 56) end++;
            sort_words(other + start, words + start, end - start, 4, 7);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        keys[i] = (uint32_t)(words[i] >> KEY_BITS);
        offsets[i] = (uint32_t)words[i];
    }
    return count;
}

/* Sort the keys of each table in `columns` (C, rows), with `starts` (tables + 1) of each in the result; O(C rows).
 *
 * first_columns (tables + 1): the first column of each table, and C. keys, offsets: room for C * rows; directory: for
 * the largest one, see runs.py. Returns the size of the directories. */
CORE_API int64_t run_sort(arena *scratch, const uint32_t *columns, int64_t rows, const int64_t *first_columns,
                          int64_t tables, int64_t *starts, uint32_t *keys, uint32_t *offsets, uint32_t *directory) {
    arena_reset(scratch);
    int64_t widest = 0;
    for (int64_t t = 0; t < tables; t++) widest = max_i64(widest, first_columns[t + 1] - first_columns[t]);
    if (rows < 0 || rows > UINT32_MAX || widest * rows > UINT32_MAX) return CORE_BAD_SIZE;
    uint64_t *words = arena_take(scratch, widest * rows, sizeof *words);
    uint64_t *other = arena_take(scratch, widest * rows, sizeof *other);
    if (arena_has_failed(scratch)) return CORE_NO_MEMORY;
    starts[0] = 0;
    for (int64_t t = 0; t < tables; t++) {
        int64_t first = first_columns[t], width = first_columns[t + 1] - first, start = starts[t];
        starts[t + 1] = start + sort_table(columns + first * rows, rows, width, words, other, keys + start,
                                           offsets + start);
    }
    return fill_directories(keys, starts, tables, directory);
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
 * alive: of each of the `rows` rows of the range whether it is kept, or NULL for all. keys, offsets, directory: room
 * for the entries of both. Returns the size of the directories. */
CORE_API int64_t run_merge(const run *older, const run *newer, const uint8_t *alive, int64_t rows, int64_t *starts,
                           uint32_t *keys, uint32_t *offsets, uint32_t *directory) {
    if (older->tables != newer->tables || older->end > newer->base || newer->end - older->base != rows ||
        rows > UINT32_MAX)
        return CORE_BAD_SIZE;
    uint32_t shift = (uint32_t)(newer->base - older->base);
    starts[0] = 0;
    for (int64_t t = 0; t < older->tables; t++) {
        int64_t start = starts[t];
        starts[t + 1] = start + merge_table(older, newer, t, shift, alive, keys + start, offsets + start);
    }
    return fill_directories(keys, starts, older->tables, directory);
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
    int64_t base, shift, column, dont_care_bits, max_hamming; /* base: of the run, counted from the first row held */
} table;

/* Whether a row counts for an item. Rows are counted from the first that is held; those before it are gone. */
static inline bool counts_for(const lookup *lookup, int64_t row, int64_t item) {
    if ((uint64_t)row >= (uint64_t)lookup->rows || (lookup->hidden && lookup->hidden[row])) return false;
    const int64_t *window = lookup->windows + item * WINDOW_SIZE;
    return is_visible(lookup->times[row], row + lookup->first >= window[RECENT], window);
}

/* Note that an item's key in this column found a row. */
static bool add_hit(arena *scratch, lookup *lookup, int64_t item, int64_t row, int64_t column) {
    if (lookup->count == lookup->room) {
        lookup->hits = arena_grow(scratch, lookup->hits, &lookup->room, lookup->count, FIRST_ROOM, sizeof(int64_t));
        if (!lookup->hits) return false;
    }
    lookup->hits[lookup->count++] = item << ITEM_SHIFT | row << ROW_SHIFT | column;
    return true;
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
static int64_t find_newest(const table *table, const uint32_t *queries, int64_t count, exact_block *block) {
    for (int64_t j = 0; j < count; j++) {
        uint32_t entry = queries[j] >> table->shift;
        block->low[j] = table->directory[entry];
        block->high[j] = table->directory[entry + 1];
    }
    for (int64_t j = 0; j < count; j++) block->last[j] = table->keys[block->high[j] - (block->high[j] > 0)];
    int64_t hits = 0;
    for (int64_t j = 0; j < count; j++) {
        uint32_t key = queries[j], low = block->low[j], last = block->last[j];
        uint32_t high = position_after(table->keys, key, low, block->high[j], &last);
        block->high[j] = high;
        block->hits[hits] = j;
        hits += high > low && last == key && key;
    }
    for (int64_t h = 0; h < hits; h++) block->newest[h] = table->base + table->offsets[block->high[block->hits[h]] - 1];
    return hits;
}

/* Give an item the rows of its key, the newest first, as many as its budget allows. `position` is after the newest. */
static bool give_rows(arena *scratch, const table *table, uint32_t position, int64_t newest, int64_t item,
                      int64_t column, lookup *lookup) {
    int32_t *budget = lookup->budgets + column * lookup->items + item;
    uint32_t key = table->keys[position - 1];
    int64_t row = newest, before = -1;
    while (*budget > 0) {
        /* Two columns of a row may hold the same key. */
        if (row != before && counts_for(lookup, row, item)) {
            if (!add_hit(scratch, lookup, item, row, column)) return false;
            --*budget;
        }
        if (--position == 0 || table->keys[position - 1] != key) break;
        before = row;
        row = table->base + table->offsets[position - 1];
    }
    return true;
}

/* Probe one exact table. All queries of a table are one row, whichever their column. */
static bool probe_exact(arena *scratch, const table *table, int64_t width, lookup *lookup) {
    exact_block block;
    const uint32_t *queries = lookup->queries + table->column * lookup->items;
    int64_t total = width * lookup->items;
    for (int64_t start = 0; start < total; start += BLOCK) {
        int64_t hits = find_newest(table, queries + start, min_i64(BLOCK, total - start), &block);
        for (int64_t h = 0; h < hits; h++) {
            int64_t item = start + block.hits[h], column = table->column;
            while (item >= lookup->items) { /* faster than dividing: most tables have one column */
                item -= lookup->items;
                column++;
            }
            uint32_t position = block.high[block.hits[h]];
            if (!give_rows(scratch, table, position, block.newest[h], item, column, lookup)) return false;
        }
    }
    return true;
}

/* The rows of a block of queries of a near table that match, so far as positions; `ends` of each query. */
typedef struct {
    uint32_t low[BLOCK], high[BLOCK];
    int64_t ends[BLOCK];
    int64_t room, *rows, other_room, *other;
} near_block;

/* Append the positions from `low` to `high` whose keys match; return the new number of positions. */
static int64_t match_bucket(const uint32_t *keys, uint32_t low, uint32_t high, uint32_t key, const table *table,
                            int64_t *positions, int64_t found) {
    for (uint32_t position = low; position < high; position++) {
        positions[found] = position;
        found += is_near(key, keys[position], table->dont_care_bits, table->max_hamming);
    }
    return found;
}

/* Find the rows that match each of up to BLOCK queries. Short loops, as for an exact table: bucket, reads ahead,
 * comparisons, rows. */
static bool find_near(arena *scratch, const table *table, const uint32_t *queries, const int32_t *budgets,
                      int64_t count, near_block *block) {
    uint32_t mask = (uint32_t)((1ull << table->dont_care_bits) - 1);
    for (int64_t j = 0; j < count; j++) {
        bool is_asked = queries[j] && budgets[j] > 0;
        block->low[j] = table->directory[(queries[j] & ~mask) >> table->shift];
        block->high[j] = is_asked ? table->directory[((queries[j] | mask) >> table->shift) + 1] : block->low[j];
    }
    for (int64_t j = 0; j < count; j++)
        for (int64_t at = block->low[j]; at < min_i64(block->high[j], block->low[j] + PREFETCHED); at += KEYS_OF_LINE)
            __builtin_prefetch(table->keys + at);
    int64_t found = 0;
    for (int64_t j = 0; j < count; j++) {
        block->rows = arena_grow(scratch, block->rows, &block->room, found, block->high[j] - block->low[j],
                                 sizeof *block->rows);
        if (!block->rows) return false;
        found = match_bucket(table->keys, block->low[j], block->high[j], queries[j], table, block->rows, found);
        block->ends[j] = found;
    }
    for (int64_t h = 0; h < found; h++) block->rows[h] = table->base + table->offsets[block->rows[h]];
    return true;
}

/* Probe one near table, of one column. A bucket is sorted by key, not by row, so its live matches are collected, and
 * sorted by row if there are more than the budget. */
static bool probe_near(arena *scratch, const table *table, lookup *lookup) {
    near_block block = {.room = FIRST_ROOM};
    block.rows = arena_take(scratch, block.room, sizeof *block.rows);
    int32_t *budgets = lookup->budgets + table->column * lookup->items;
    const uint32_t *queries = lookup->queries + table->column * lookup->items;
    for (int64_t start = 0; start < lookup->items; start += BLOCK) {
        int64_t count = min_i64(BLOCK, lookup->items - start), begin = 0;
        if (!find_near(scratch, table, queries + start, budgets + start, count, &block)) return false;
        for (int64_t j = 0; j < count; begin = block.ends[j++]) {
            int64_t item = start + j, alive = 0, *rows = block.rows + begin;
            for (int64_t h = 0; h < block.ends[j] - begin; h++) {
                rows[alive] = rows[h];
                alive += counts_for(lookup, rows[h], item);
            }
            int64_t given = min_i64(alive, max_i64(budgets[item], 0));
            if (given < alive) {
                block.other = arena_grow(scratch, block.other, &block.other_room, 0, alive, sizeof *block.other);
                if (!block.other) return false;
                sort_words((uint64_t *)rows, (uint64_t *)block.other, alive, 0, 4); /* rows have 32 bits */
            }
            for (int64_t h = alive - given; h < alive; h++)
                if (!add_hit(scratch, lookup, item, rows[h], table->column)) return false;
            budgets[item] -= (int32_t)given;
        }
    }
    return true;
}

/* Find the rows of one run: one pass over its tables, O(C items) cache misses. */
static bool probe_run(arena *scratch, const run *run, const nearness *near, lookup *lookup) {
    const uint32_t *directory = run->directory;
    for (int64_t t = 0; t < run->tables; t++) {
        int64_t start = run->starts[t], entries = run->starts[t + 1] - start, bits = directory_bits(entries);
        int64_t column = near->first_columns[t], width = near->first_columns[t + 1] - column;
        table one = {.keys = run->keys + start,
                     .offsets = run->offsets + start,
                     .directory = directory,
                     .base = run->base - lookup->first,
                     .shift = KEY_BITS - bits,
                     .column = column,
                     .dont_care_bits = near->dont_care_bits[column],
                     .max_hamming = near->max_hamming};
        directory += (1ll << bits) + 1;
        if (!entries) continue;
        bool is_done;
        if (one.dont_care_bits) is_done = probe_near(scratch, &one, lookup);
        else is_done = probe_exact(scratch, &one, width, lookup);
        if (!is_done) return false;
    }
    return true;
}

/* Find the rows of `run_count` runs, the newest first, that share a key with an item and count for it; return the
 * number of hits, which lie in the scratch memory until its next use. */
CORE_API int64_t index_find(arena *scratch, const run *const *runs, int64_t run_count, const nearness *near,
                            lookup *lookup) {
    arena_reset(scratch);
    lookup->count = lookup->room = 0;
    if (near->columns > COLUMN + 1 || lookup->items > 1ll << (63 - ITEM_SHIFT) ||
        lookup->rows > 1ll << (ITEM_SHIFT - ROW_SHIFT))
        return CORE_BAD_SIZE;
    for (int64_t r = 0; r < run_count; r++) {
        if (runs[r]->tables != near->tables) return CORE_BAD_SIZE;
        if (!probe_run(scratch, runs[r], near, lookup)) return CORE_NO_MEMORY;
    }
    return lookup->count;
}

/* Find out whether each key of `a` matches one of `b` in its table; both are (rows, columns). */
CORE_API int64_t index_matches(const uint32_t *a, const uint32_t *b, int64_t rows, int64_t columns,
                               const int64_t *table_of, const int64_t *dont_care_bits, int64_t max_hamming,
                               uint8_t *matching) {
    for (int64_t row = 0; row < rows; row++, a += columns, b += columns, matching += columns)
        for (int64_t column = 0; column < columns; column++) {
            matching[column] = false;
            for (int64_t other = 0; other < columns; other++)
                if (table_of[other] == table_of[column])
                    matching[column] |= is_near(a[column], b[other], dont_care_bits[column], max_hamming);
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

/* Add keys (columns, rows) to a filter of a power of two of words; or, if `passed` is not NULL, write to it the
 * positions of those that may be in the filter, and return their number. */
CORE_API int64_t filter_keys(uint64_t *words, int64_t size, const uint32_t *keys, int64_t columns, int64_t rows,
                             const int64_t *table_of, int64_t *passed) {
    int64_t count = 0;
    for (int64_t column = 0; column < columns; column++)
        for (int64_t i = column * rows; i < (column + 1) * rows; i++) {
            uint64_t hash = hash_of(keys[i], table_of[column]), bits = pattern_of(hash);
            uint64_t *word = words + (hash & (uint64_t)(size - 1));
            if (!keys[i]) continue;
            if (!passed) *word |= bits;
            else if ((*word & bits) == bits) passed[count++] = i;
        }
    return count;
}

/* Find the candidates of an item, earlier items that share a key with it, and choose those to compare, at most
 * MAX_CANDIDATES (core.h).
 *
 * dedup/candidates.py states the rule. The index was asked for the rows of all items of the batch at once. The items of
 * the batch are linked by their keys: from each key of an item to the newest earlier item that has the same one. Which
 * of these are remembered, and which originals are deleted, shows as the items are judged.
 */
#include "core.h"

/* ---- a hash table ---- */

/* Numbers by key, in a power of two of slots. NONE: the slot is free. */
typedef struct map {
    uint64_t *keys;
    int32_t *numbers;
    uint64_t mask, secret;
} map;

/* Take an empty map for at most `count` keys. Half of the slots stay free, so that probe sequences are short. */
static void take_map(arena *scratch, int64_t count, map *taken) {
    int64_t slots = slots_for(count / 2);
    taken->mask = (uint64_t)slots - 1;
    taken->secret = arena_secret(scratch);
    taken->keys = arena_take(scratch, slots, sizeof *taken->keys);
    taken->numbers = arena_take(scratch, slots, sizeof *taken->numbers);
    if (taken->numbers) memset(taken->numbers, NONE, (size_t)slots * sizeof *taken->numbers);
}

/* Where the number of a key is, or may be written. */
static inline int32_t *number_of(const map *all, uint64_t key) {
    uint64_t slot = first_slot(key, all->secret, all->mask);
    while (all->numbers[slot] != NONE && all->keys[slot] != key) slot = (slot + 1) & all->mask;
    all->keys[slot] = key;
    return all->numbers + slot;
}

/* ---- links between the items of a batch ---- */

/* A node is a key of an item: item << ROW_SHIFT | column. This is where the node's key, or its link, is in an array
 * (items, columns). */
static inline int64_t place_of(int64_t node, int64_t columns) {
    return (node >> ROW_SHIFT) * columns + (node & COLUMN);
}

/* Write into links (count, columns) the newest earlier node with the same key in the same table, or NONE.
 *
 * first_columns: (tables + 1,) of each table, and the number of columns. */
CORE_API int64_t link_items(arena *scratch, const uint32_t *keys, int64_t count, const int64_t *first_columns,
                            int64_t tables, const int64_t *dont_care_bits, int32_t *links) {
    int64_t columns = first_columns[tables], place = 0;
    map newest;
    arena_reset(scratch);
    if (count > 1 << (31 - ROW_SHIFT) || columns > COLUMN) return CORE_BAD_SIZE;
    take_map(scratch, count * columns, &newest);
    if (arena_has_failed(scratch)) return CORE_NO_MEMORY;
    for (int64_t item = 0; item < count; item++)
        for (int64_t table = 0, column = 0; column < columns; column++, place++) {
            table += column == first_columns[table + 1];
            links[place] = NONE;
            if (!keys[place]) continue;
            uint64_t ignored = (1ull << dont_care_bits[column]) - 1;
            int32_t *node = number_of(&newest, (uint64_t)table << 32 | keys[place] | ignored);
            bool is_twice = *node != NONE && *node >> ROW_SHIFT == item; /* then its first column stands for both */
            links[place] = is_twice ? links[place_of(*node, columns)] : *node;
            if (!is_twice) *node = (int32_t)(item << ROW_SHIFT | column);
        }
    return count;
}

/* ---- a search ---- */

/* A key that an item shares with a candidate. */
typedef struct hit {
    int32_t candidate, column;
} hit;

/* Of one key of an item: the candidates that it gave, the rows that the index found, and those of them that are deleted
 * by now. */
typedef struct key_counts {
    int64_t given, listed, deleted;
} key_counts;

struct search {
    batch *batch;
    map deletions; /* the last deletion of each name */
    int64_t first_deletion; /* of this batch; those before are of earlier ones */
    int64_t most_hits;     /* of an item */
    /* Of the item at hand: candidates, the keys that they share, and counts by column. */
    candidate *found;
    hit *hits;
    int64_t found_count, hit_count;
    key_counts *counts;
    int32_t *places; /* (items,) where an item of the batch is in `found`, or NONE */
};

/* Whether a deletion of this name came after the addition of a row. Rows of the index came before all of them. */
static bool is_deleted(const search *search, uint64_t name, int64_t row) {
    const batch *batch = search->batch;
    if (!batch->deletions.count) return false;
    int32_t last = *number_of(&search->deletions, name);
    return last != NONE && row < batch->rows.next + batch->deletions.list[last].before;
}

/* A later deletion of a name stands for the earlier ones, so that their number is that of the names. */
void note_deletion(search *search, uint64_t name) {
    batch *batch = search->batch;
    int32_t *last = number_of(&search->deletions, name);
    if (*last < search->first_deletion) *last = (int32_t)batch->deletions.count++;
    batch->deletions.list[*last] = (deletion){batch->added, name};
}

static int64_t body_end(const segment *segment, int64_t row) {
    if (segment->end_bytes == sizeof(uint32_t)) return ((const uint32_t *)segment->ends)[row];
    return (int64_t)((const uint64_t *)segment->ends)[row];
}

/* A row of the index where it is stored. */
static view stored_at(const batch *batch, int64_t row) {
    int64_t offset = row - batch->rows.first, place = offset & ((1 << SEGMENT_BITS) - 1);
    const segment *segment = &batch->rows.segments[offset >> SEGMENT_BITS];
    view found = {segment->signatures + place * batch->items.layout.stride, NULL, 0, false};
    if (!segment->end_bytes) return found;
    found.body = segment->bodies + body_end(segment, place);
    found.body_bytes = body_end(segment, place + 1) - body_end(segment, place);
    return found;
}

view view_of(const batch *batch, const candidate *one) {
    return one->item == NONE ? stored_at(batch, one->row) : view_at(&batch->items, one->item);
}

/* Note that the key of a column gave this candidate. */
static void add_hit(search *search, int64_t candidate, int64_t column) {
    search->counts[column].given++;
    search->hits[search->hit_count++] = (hit){(int32_t)candidate, (int32_t)column};
}

/* ---- in the batch ---- */

/* Whether an earlier item of the batch is not remembered, deleted or evicted: it counts for no later item. */
static bool is_gone(const search *search, int64_t earlier) {
    const batch *batch = search->batch;
    const outcome *outcome = &batch->outcomes[earlier];
    const subject *known = &batch->subjects[earlier];
    int64_t row = outcome->row_number;
    return !outcome->is_added || row < batch->rows.first_kept + batch->added ||
           is_deleted(search, known->row_id, row) || is_deleted(search, known->version, row);
}

/* Whether an earlier item of the batch that is not gone counts for an item, by the key of a node. */
static bool counts_for(const batch *batch, int64_t item, int64_t column, int64_t node) {
    const subject *subject = &batch->subjects[item], *known = &batch->subjects[node >> ROW_SHIFT];
    const batch_keys *keys = &batch->keys;
    uint32_t key = keys->values[item * keys->columns + column], other = keys->values[place_of(node, keys->columns)];
    return is_in_window(known->step, known->index_time, subject->step, subject->window) &&
           is_near(key, other, keys->dont_care_bits[column], keys->max_hamming);
}

/* Find the remembered items of the batch that share a key with an item, for each key the newest. A link to an item that
 * is gone is cut: no later item walks past it again, so a thousand versions of one id cost a thousand steps. */
static void find_in_batch(search *search, int64_t item) {
    const batch *batch = search->batch;
    const batch_keys *keys = &batch->keys;
    for (int64_t column = 0; column < keys->columns; column++) {
        int32_t *link = keys->links + item * keys->columns + column;
        while (*link != NONE && search->counts[column].given < keys->bucket_limit) {
            int64_t node = *link, earlier = node >> ROW_SHIFT;
            int32_t *next = keys->links + place_of(node, keys->columns);
            if (is_gone(search, earlier)) {
                *link = *next;
                continue;
            }
            link = next;
            if (!counts_for(batch, item, column, node)) continue;
            if (search->places[earlier] == NONE) {
                search->places[earlier] = (int32_t)search->found_count;
                search->found[search->found_count++] = (candidate){batch->outcomes[earlier].row_number, earlier, 0};
            }
            add_hit(search, search->places[earlier], column);
        }
    }
    for (int64_t k = 0; k < search->found_count; k++) search->places[search->found[k].item] = NONE;
}

/* ---- in the index ---- */

static bool is_row_deleted(const search *search, int64_t row) {
    if (!search->batch->deletions.count) return false;
    const uint8_t *known = stored_at(search->batch, row).signature;
    uint64_t row_id = row_id_of(known);
    return is_deleted(search, row_id, row) || is_deleted(search, version_of(row_id, digest_of(known)), row);
}

static inline int64_t row_of_hit(const batch *batch, int64_t hit) {
    return (hit >> ROW_SHIFT & UINT32_MAX) + batch->found.first_row;
}

/* Find the rows of the index that count for an item, after those of the batch, for each key the newest. Returns 0, or
 * NONE if this batch has deleted rows of a key that may have more than the index gave, or CORE_BAD_SIZE. */
static int64_t find_in_index(search *search, int64_t item) {
    const batch *batch = search->batch;
    const subject *subject = &batch->subjects[item];
    int64_t before = NONE, first_kept = batch->rows.first_kept + batch->added;
    bool is_gone = false, is_found = false; /* of the row before */
    if (subject->first_hit < 0 || subject->last_hit > batch->found.count) return CORE_BAD_SIZE;
    if (subject->last_hit - subject->first_hit > search->most_hits) return CORE_BAD_SIZE;
    /* A second tombstone of an id finds nothing: the first one deleted all rows of the index. */
    if (subject->kind == TOMBSTONE && *number_of(&search->deletions, subject->row_id) != NONE) return 0;
    for (int64_t k = subject->last_hit - 1; k >= subject->first_hit; k--) {
        int64_t row = row_of_hit(batch, batch->found.hits[k]), column = batch->found.hits[k] & COLUMN;
        if (row < batch->rows.first || row >= batch->rows.next || column >= batch->keys.columns) return CORE_BAD_SIZE;
        key_counts *counts = &search->counts[column];
        if (row != before) {
            is_gone = is_row_deleted(search, row);
            is_found = false;
            before = row;
        }
        counts->listed++;
        counts->deleted += is_gone;
        if (is_gone || row < first_kept || counts->given >= batch->keys.bucket_limit) continue;
        if (!is_found) search->found[search->found_count++] = (candidate){row, NONE, 0};
        is_found = true;
        add_hit(search, search->found_count - 1, column);
    }
    for (const key_counts *key = search->counts; key < search->counts + batch->keys.columns; key++) {
        bool may_have_more = key->listed >= batch->keys.bucket_limit && key->given < batch->keys.bucket_limit;
        if (may_have_more && key->deleted) return NONE;
    }
    return 0;
}

/* ---- the choice ---- */

/* Of a key that gave one item, as an integer: sums are exact in any order. An equal id outweighs 8,192 keys, more than
 * a lookup can have columns. */
enum { KEY_WEIGHT = 1 << 16, ID_WEIGHT = 1 << 29 };
/* Items of one id up to which it names an article: several feeds may count 1, 2, 3, and each item of one id takes the
 * place of a candidate. */
enum { MOST_OF_ONE_ID = 4 };

/* What sharing a key adds to a score. The last column is that of ids. */
static int64_t weight_of(const search *search, int64_t column) {
    int64_t given = search->counts[column].given;
    if (column == search->batch->keys.columns - 1 && given <= MOST_OF_ONE_ID) return ID_WEIGHT;
    return max_i64(KEY_WEIGHT / given, 1);
}

static bool is_worse(candidate a, candidate b) { return a.score < b.score || (a.score == b.score && a.row < b.row); }

/* Put the candidates with the highest scores into `best`, the oldest first; ties go to the newest. Returns their
 * number. */
static int64_t keep_best(const search *search, candidate *best) {
    int64_t count = 0, at;
    for (int64_t k = 0; k < search->found_count; k++) { /* the worst first */
        candidate one = search->found[k];
        if (count == MAX_CANDIDATES) {
            if (is_worse(one, best[0])) continue;
            memmove(best, best + 1, (size_t)--count * sizeof *best);
        }
        for (at = count++; at && is_worse(one, best[at - 1]); at--) best[at] = best[at - 1];
        best[at] = one;
    }
    for (int64_t k = 1; k < count; k++) {
        candidate one = best[k];
        for (at = k; at && one.row < best[at - 1].row; at--) best[at] = best[at - 1];
        best[at] = one;
    }
    return count;
}

int64_t choose_candidates(search *search, int64_t item, candidate *best) {
    memset(search->counts, 0, (size_t)search->batch->keys.columns * sizeof *search->counts);
    search->found_count = search->hit_count = 0;
    find_in_batch(search, item);
    int64_t error = find_in_index(search, item);
    if (error) return error;
    for (int64_t k = 0; k < search->hit_count; k++)
        search->found[search->hits[k].candidate].score += weight_of(search, search->hits[k].column);
    return keep_best(search, best);
}

int64_t take_search(arena *scratch, batch *batch, search **taken) {
    struct search *search = *taken = arena_take(scratch, 1, sizeof *search);
    if (!search) return CORE_NO_MEMORY;
    int64_t most = 0, items = batch->items.count;
    for (const subject *one = batch->subjects; one < batch->subjects + items; one++)
        most = max_i64(most, one->last_hit - one->first_hit);
    *search = (struct search){.batch = batch, .first_deletion = batch->deletions.count, .most_hits = most};
    most += batch->keys.columns * min_i64(batch->keys.bucket_limit, items);
    take_map(scratch, batch->deletions.room, &search->deletions);
    search->places = arena_take(scratch, items, sizeof *search->places);
    search->found = arena_take(scratch, most, sizeof *search->found);
    search->hits = arena_take(scratch, most, sizeof *search->hits);
    search->counts = arena_take(scratch, batch->keys.columns, sizeof *search->counts);
    if (arena_has_failed(scratch)) return CORE_NO_MEMORY;
    memset(search->places, NONE, (size_t)items * sizeof *search->places);
    for (int64_t k = 0; k < batch->deletions.count; k++)
        *number_of(&search->deletions, batch->deletions.list[k].name) = (int32_t)k;
    return 0;
}

CORE_API int64_t max_candidates(void) { return MAX_CANDIDATES; }

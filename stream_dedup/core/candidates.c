/* Find the candidates of an item, earlier items that share a key with it, and choose the twelve to compare.
 *
 * candidates.py states the rule. Rows of the index were looked up for all items of the batch at once; the items of the
 * batch are linked by their keys. What is remembered or forgotten shows only as the items before are judged.
 */
#include "core.h"

/* A key that an item shares with a candidate. */
typedef struct hit {
    int32_t candidate, column;
} hit;

struct search {
    batch *batch;
    /* The last deletion of each name, plus 1: a hash table of `gone_mask` + 1 slots. */
    int32_t *gone;
    uint64_t gone_mask;
    /* Of the item at hand: candidates, and the keys that they share. */
    candidate *found;
    hit *hits;
    int64_t found_count, hit_count;
    /* For each key, how many it gave; of the rows that the index found, how many there are, and how many forgotten. */
    int64_t *given, *listed, *missing;
    int32_t *places; /* (items,) where an item of the batch is in `found`, or NONE */
};

/* ---- what is forgotten ---- */

/* The slot of a name, free or taken. */
static int32_t *slot_of(const search *all, uint64_t name) {
    uint64_t slot = name * GOLDEN & all->gone_mask;
    while (all->gone[slot] && all->batch->deletions[all->gone[slot] - 1].name != name)
        slot = (slot + 1) & all->gone_mask;
    return all->gone + slot;
}

/* Whether a deletion of this name came after the addition of a row. Rows of the index came before all of them. */
static bool is_deleted(const search *all, uint64_t name, int64_t row) {
    int32_t last = *slot_of(all, name);
    return last && row < all->batch->next_row + all->batch->deletions[last - 1].before;
}

static bool is_forgotten(const search *all, uint64_t row_id, uint64_t version, int64_t row) {
    if (!all->batch->deleted) return false;
    return is_deleted(all, row_id, row) || is_deleted(all, version, row);
}

void note_deletion(search *all, uint64_t name) {
    batch *b = all->batch;
    b->deletions[b->deleted] = (deletion){b->added, name};
    *slot_of(all, name) = (int32_t)++b->deleted;
}

/* ---- links between the items of a batch ---- */

/* A hash table that holds, for each key of one table of the index, the last item that had it, as a node. */
typedef struct last_nodes {
    const uint32_t *keys;
    int64_t columns, bits;
    uint32_t ignored; /* bits of a key that may differ */
    int32_t *nodes;
} last_nodes;

/* Where the key of a node, or its link, is in an array (items, columns). */
static int64_t place_of(int64_t node, int64_t columns) { return (node >> ROW_SHIFT) * columns + (node & COLUMN); }

/* The slot of a key. */
static int32_t *slot_of_key(const last_nodes *all, uint32_t key) {
    uint32_t bucket = key | all->ignored;
    int64_t slot = (int64_t)(bucket * GOLDEN >> (64 - all->bits)), mask = (1ll << all->bits) - 1;
    while (all->nodes[slot] >= 0 && (all->keys[place_of(all->nodes[slot], all->columns)] | all->ignored) != bucket)
        slot = (slot + 1) & mask;
    return all->nodes + slot;
}

/* Write into links (count, columns) where the newest earlier item has the same key in the same table: item << ROW_SHIFT
 * | column, or -1. first_columns: (tables + 1,) of each table, and `columns`. */
CORE_API int64_t link_items(arena *scratch, const uint32_t *keys, int64_t count, const int64_t *first_columns,
                            int64_t tables, const int64_t *dont_care_bits, int32_t *links) {
    int64_t columns = first_columns[tables], widest = 1;
    arena_reset(scratch);
    if (count > 1 << (31 - ROW_SHIFT) || columns > COLUMN) return CORE_BAD_SIZE;
    for (int64_t t = 0; t < tables; t++) widest = max_i64(widest, first_columns[t + 1] - first_columns[t]);
    last_nodes last = {.keys = keys, .columns = columns, .bits = 6};
    /* Three slots in four stay free: probe sequences are short. */
    while (1ll << last.bits < 4 * count * widest) last.bits++;
    last.nodes = arena_take(scratch, 1ll << last.bits, sizeof *last.nodes);
    if (!last.nodes) return CORE_NO_MEMORY;
    for (int64_t t = 0; t < tables; t++) {
        memset(last.nodes, NONE, sizeof *last.nodes << last.bits);
        last.ignored = (uint32_t)((1ull << dont_care_bits[first_columns[t]]) - 1);
        for (int64_t i = 0; i < count; i++) {
            for (int64_t column = first_columns[t]; column < first_columns[t + 1]; column++) {
                int64_t node = i << ROW_SHIFT | column;
                int32_t *link = links + place_of(node, columns), *slot;
                *link = NONE;
                if (!keys[place_of(node, columns)]) continue;
                slot = slot_of_key(&last, keys[place_of(node, columns)]);
                bool is_twice = *slot >= 0 && *slot >> ROW_SHIFT == i; /* then its first column stands for both */
                *link = is_twice ? links[place_of(*slot, columns)] : *slot;
                if (!is_twice) *slot = (int32_t)node;
            }
        }
    }
    return count;
}

/* Let the links of item j pass over items that are not remembered. */
static void link_to_remembered(const batch *all, int64_t j) {
    for (int64_t column = 0; column < all->columns; column++) {
        int32_t *link = all->links + j * all->columns + column;
        if (*link >= 0 && !all->outcomes[*link >> ROW_SHIFT].is_added)
            *link = all->links[place_of(*link, all->columns)];
    }
}

/* ---- candidates ---- */

static int64_t body_end(const segment *part, int64_t place) {
    if (part->end_bytes == sizeof(uint32_t)) return ((const uint32_t *)part->ends)[place];
    return (int64_t)((const uint64_t *)part->ends)[place];
}

/* A row of the index where it is stored. */
static view stored(const batch *all, int64_t row) {
    int64_t offset = row - all->first_stored, place = offset & ((1 << SEGMENT_BITS) - 1);
    const segment *part = &all->segments[offset >> SEGMENT_BITS];
    view found = {part->signatures + place * all->items.layout.stride, NULL, 0};
    if (!part->end_bytes) return found;
    found.body = part->bodies + body_end(part, place);
    found.body_bytes = body_end(part, place + 1) - body_end(part, place);
    return found;
}

view view_of(const batch *all, const candidate *one) {
    return one->item == NONE ? stored(all, one->row) : view_at(&all->items, one->item);
}

/* Note that the key of a column gave this candidate. */
static void add_hit(search *all, int64_t place, int64_t column) {
    all->given[column]++;
    all->hits[all->hit_count++] = (hit){(int32_t)place, (int32_t)column};
}

/* Whether an item of the batch, by the key of a node, counts for item j. */
static bool counts_for(const search *all, int64_t j, int64_t column, int64_t node) {
    const batch *b = all->batch;
    const subject *item = &b->subjects[j], *known = &b->subjects[node >> ROW_SHIFT];
    int64_t row = b->outcomes[node >> ROW_SHIFT].row_number;
    return row >= b->first_kept_row + b->added && !is_forgotten(all, known->row_id, known->version, row) &&
           is_in_window(known->step, known->index_time, item->step, item->window) &&
           is_near(b->keys[j * b->columns + column], b->keys[place_of(node, b->columns)], b->dont_care_bits[column],
                   b->max_hamming);
}

/* Find the remembered items of the batch that share a key with item j, for each key the newest. */
static void find_in_batch(search *all, int64_t j) {
    const batch *b = all->batch;
    for (int64_t column = 0; column < b->columns; column++) {
        int64_t node = b->links[j * b->columns + column];
        while (node >= 0 && all->given[column] < b->bucket_limit) {
            int64_t i = node >> ROW_SHIFT;
            if (counts_for(all, j, column, node)) {
                if (all->places[i] == NONE) {
                    all->places[i] = (int32_t)all->found_count;
                    all->found[all->found_count++] = (candidate){b->outcomes[i].row_number, i, 0};
                }
                add_hit(all, all->places[i], column);
            }
            node = b->links[place_of(node, b->columns)];
        }
    }
    for (int64_t k = 0; k < all->found_count; k++) all->places[all->found[k].item] = NONE;
}

static bool is_row_forgotten(const search *all, int64_t row) {
    const uint8_t *known = stored(all->batch, row).signature;
    return is_forgotten(all, row_id_of(known), version_of(row_id_of(known), digest_of(known)), row);
}

/* Find the rows of the index that count for item j behind those of the batch, for each key the newest. Returns whether
 * the index gave enough: not if this batch has deleted rows of a key that has more than the index was asked for. */
static bool find_in_index(search *all, int64_t j) {
    const batch *b = all->batch;
    const subject *item = &b->subjects[j];
    int64_t before = NONE, first_kept = b->first_kept_row + b->added;
    bool is_gone = false, is_found = false; /* of the row before */
    for (int64_t w = item->last_word - 1; w >= item->first_word; w--) {
        int64_t row = (b->words[w] >> ROW_SHIFT & UINT32_MAX) + b->first_row, column = b->words[w] & COLUMN;
        if (row != before) {
            is_gone = b->deleted && is_row_forgotten(all, row);
            is_found = false;
            before = row;
        }
        all->listed[column]++;
        all->missing[column] += is_gone;
        if (is_gone || row < first_kept || all->given[column] >= b->bucket_limit) continue;
        if (!is_found) all->found[all->found_count++] = (candidate){row, NONE, 0};
        is_found = true;
        add_hit(all, all->found_count - 1, column);
    }
    for (int64_t column = 0; column < b->columns; column++) {
        bool has_more = all->listed[column] >= item->limit && all->given[column] < b->bucket_limit;
        if (has_more && all->missing[column] > item->limit - b->bucket_limit) return false;
    }
    return true;
}

/* Of a key that gave one item, as an integer: sums are exact in any order. An equal id outweighs 3,074 keys. */
enum { KEY_WEIGHT = 1 << 16, ID_WEIGHT = 1 << 29 };
/* Items of one id up to which it names an article: several feeds may count 1, 2, 3, and each item of one id takes the
 * place of a candidate. */
enum { MOST_OF_ONE_ID = 4 };

/* What sharing a key adds to a score. The last column is that of ids. */
static int64_t weight_of(const search *all, int64_t column) {
    int64_t given = all->given[column];
    if (column == all->batch->columns - 1 && given <= MOST_OF_ONE_ID) return ID_WEIGHT;
    return max_i64(KEY_WEIGHT / given, 1);
}

static bool is_worse(candidate a, candidate b) { return a.score < b.score || (a.score == b.score && a.row < b.row); }

/* Put the candidates with the highest scores, of equals the newest, into `best`, the oldest first. Returns their
 * number. */
static int64_t keep_best(const search *all, candidate *best) {
    int64_t n = 0, at;
    for (int64_t k = 0; k < all->found_count; k++) { /* the worst first */
        candidate one = all->found[k];
        if (n == MAX_CANDIDATES) {
            if (is_worse(one, best[0])) continue;
            memmove(best, best + 1, (size_t)--n * sizeof *best);
        }
        for (at = n++; at && is_worse(one, best[at - 1]); at--) best[at] = best[at - 1];
        best[at] = one;
    }
    for (int64_t k = 1; k < n; k++) {
        candidate one = best[k];
        for (at = k; at && one.row < best[at - 1].row; at--) best[at] = best[at - 1];
        best[at] = one;
    }
    return n;
}

int64_t choose_candidates(search *all, int64_t j, candidate *best) {
    memset(all->given, 0, 3 * (size_t)all->batch->columns * sizeof *all->given); /* and `listed` and `missing` */
    all->found_count = all->hit_count = 0;
    link_to_remembered(all->batch, j);
    find_in_batch(all, j);
    if (!find_in_index(all, j)) return NONE;
    for (int64_t k = 0; k < all->hit_count; k++)
        all->found[all->hits[k].candidate].score += weight_of(all, all->hits[k].column);
    return keep_best(all, best);
}

/* Whether what was looked up lies inside its arrays. most: set to the most words of an item. */
static bool is_sound(const batch *b, int64_t *most) {
    for (int64_t j = 0; j < b->items.count; j++) {
        const subject *item = &b->subjects[j];
        if (item->first_word < 0 || item->first_word > item->last_word || item->last_word > b->word_count) return false;
        *most = max_i64(*most, item->last_word - item->first_word);
    }
    for (int64_t w = 0; w < b->word_count; w++) {
        int64_t row = (b->words[w] >> ROW_SHIFT & UINT32_MAX) + b->first_row;
        if (row < b->first_stored || row >= b->next_row || (b->words[w] & COLUMN) >= b->columns) return false;
    }
    return true;
}

int64_t take_search(arena *scratch, batch *b, search **taken) {
    search *all = *taken = arena_take(scratch, 1, sizeof *all);
    if (!all) return CORE_NO_MEMORY;
    int64_t most = 0, slots = 2, items = b->items.count;
    if (!is_sound(b, &most)) return CORE_BAD_SIZE;
    most += b->columns * min_i64(b->bucket_limit, items);
    while (slots < 2 * b->deletion_room) slots *= 2;
    *all = (search){.batch = b, .gone_mask = (uint64_t)slots - 1};
    all->gone = arena_take(scratch, slots, sizeof *all->gone);
    all->places = arena_take(scratch, items, sizeof *all->places);
    all->found = arena_take(scratch, most, sizeof *all->found);
    all->hits = arena_take(scratch, most, sizeof *all->hits);
    all->given = arena_take(scratch, 3 * b->columns, sizeof *all->given);
    if (!all->gone || !all->places || !all->found || !all->hits || !all->given) return CORE_NO_MEMORY;
    all->listed = all->given + b->columns;
    all->missing = all->listed + b->columns;
    memset(all->gone, 0, (size_t)slots * sizeof *all->gone);
    memset(all->places, NONE, (size_t)items * sizeof *all->places);
    for (int64_t k = 0; k < b->deleted; k++) *slot_of(all, b->deletions[k].name) = (int32_t)(k + 1);
    return 0;
}

CORE_API int64_t max_candidates(void) { return MAX_CANDIDATES; }

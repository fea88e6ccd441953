/* Judge a batch, item by item, each against what all items before it left behind.
 *
 * decide.py says what an item is asked, candidates.py which earlier items it is compared with. judge_item asks the
 * questions of one item; `remember` is what the item leaves behind for later ones; judge_items is the loop. The rest of
 * the file finds candidates: items that are remembered are linked by their keys, and rows of the index are given.
 */
#include "core.h"

#include <math.h>

enum { NONE = -1 };
static const int64_t NO_ROW = INT64_C(1) << 62; /* in `outcome`: no candidate decided */
static const double HOUR = 3600000;             /* ms */

/* An earlier item that shares keys with the one at hand. row: its number in the index, which an item of the batch has
 * beforehand; item: its number in the batch, or NONE. */
typedef struct candidate {
    int64_t row, item, score;
} candidate;

/* A key that an item shares with a candidate. */
typedef struct hit {
    int32_t candidate, column;
} hit;

/* All that a call works with. */
typedef struct judge {
    batch *batch;
    const news *news;
    const thresholds *rule;
    changes *log;
    workspace *room;
    /* The last deletion of each name, plus 1: a hash table of `gone_mask` + 1 slots. */
    int32_t *gone;
    uint64_t gone_mask;
    /* Candidates of the item at hand; given: (columns,) how many each of its keys gave; places: (items,) where an item
     * of the batch is among them, or NONE. */
    candidate *found;
    hit *hits;
    int64_t found_count, hit_count;
    int64_t *given, *listed, *missing;
    int32_t *places;
} judge;

int64_t max_candidates(void) { return MAX_CANDIDATES; }

/* ---- what is forgotten ---- */

/* The slot of a name, free or taken. */
static int32_t *slot_of(const judge *all, uint64_t name) {
    uint64_t slot = name * GOLDEN & all->gone_mask;
    while (all->gone[slot] && all->batch->deletions[all->gone[slot] - 1].name != name) slot = (slot + 1) & all->gone_mask;
    return all->gone + slot;
}

/* Whether a deletion of this name came after the addition of a row. Rows of the index came before all of them. */
static bool is_deleted(const judge *all, uint64_t name, int64_t row) {
    int32_t last = *slot_of(all, name);
    return last && row < all->batch->next_row + all->batch->deletions[last - 1].before;
}

static bool is_forgotten(const judge *all, uint64_t row_id, uint64_t version, int64_t row) {
    if (!all->batch->deleted) return false;
    return is_deleted(all, row_id, row) || is_deleted(all, version, row);
}

/* ---- candidates ---- */

/* The signature of a row of the index where it is stored. */
static view stored(const batch *all, int64_t row) {
    int64_t offset = row - all->first_stored, place = offset & ((1 << SEGMENT_BITS) - 1);
    const segment *part = &all->segments[offset >> SEGMENT_BITS];
    view found = {part->signatures + place * all->items.layout.stride, NULL, 0};
    if (!part->end_bytes) return found;
    uint64_t begin, end;
    if (part->end_bytes == sizeof(uint32_t)) {
        const uint32_t *ends = part->ends;
        begin = ends[place], end = ends[place + 1];
    } else {
        const uint64_t *ends = part->ends;
        begin = ends[place], end = ends[place + 1];
    }
    found.body = part->bodies + begin;
    found.body_bytes = (int64_t)(end - begin);
    return found;
}

static view view_of(const batch *all, const candidate *one) {
    return one->item == NONE ? stored(all, one->row) : view_at(&all->items, one->item);
}

/* Note that the key of a column gave this candidate. */
static void add_hit(judge *all, int64_t place, int64_t column) {
    all->given[column]++;
    all->hits[all->hit_count++] = (hit){(int32_t)place, (int32_t)column};
}

/* Whether item i of the batch, by its key in column `other`, counts for item j. */
static bool counts_for(const judge *all, int64_t j, int64_t column, int64_t i, int64_t other) {
    const batch *b = all->batch;
    const subject *item = &b->subjects[j], *known = &b->subjects[i];
    int64_t row = b->outcomes[i].row_number;
    return row >= b->first_kept_row + b->added && !is_forgotten(all, known->row_id, known->version, row) &&
           is_in_window(known->step, known->index_time, item->step, item->window) &&
           is_near(b->keys[j * b->columns + column], b->keys[i * b->columns + other], b->dont_care_bits[column],
                   b->max_hamming);
}

/* Find the remembered items of the batch that share a key with item j, for each key the newest. */
static void find_in_batch(judge *all, int64_t j) {
    const batch *b = all->batch;
    for (int64_t column = 0; column < b->columns; column++) {
        int64_t node = b->links[j * b->columns + column];
        while (node >= 0 && all->given[column] < b->bucket_limit) {
            int64_t i = node >> ROW_SHIFT, other = node & COLUMN;
            if (counts_for(all, j, column, i, other)) {
                if (all->places[i] == NONE) {
                    all->places[i] = (int32_t)all->found_count;
                    all->found[all->found_count++] = (candidate){b->outcomes[i].row_number, i, 0};
                }
                add_hit(all, all->places[i], column);
            }
            node = b->links[i * b->columns + other];
        }
    }
    for (int64_t k = 0; k < all->found_count; k++) all->places[all->found[k].item] = NONE;
}

/* Find the rows of the index that count for item j behind those of the batch, for each key the newest. Returns whether
 * the index gave enough: not if this batch has deleted rows of a key that has more than the index was asked for. */
static bool find_in_index(judge *all, int64_t j) {
    const batch *b = all->batch;
    const subject *item = &b->subjects[j];
    int64_t before = NONE, first_kept = b->first_kept_row + b->added;
    bool is_gone = false, is_found = false;
    for (int64_t w = item->last_word - 1; w >= item->first_word; w--) {
        int64_t row = (b->words[w] >> ROW_SHIFT & UINT32_MAX) + b->first_row, column = b->words[w] & COLUMN;
        if (row != before) {
            const uint8_t *known = b->deleted ? stored(b, row).signature : NULL;
            is_gone = known && is_forgotten(all, row_id_of(known), version_of(row_id_of(known), digest_of(known)), row);
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
static int64_t weight_of(const judge *all, int64_t column) {
    int64_t given = all->given[column];
    if (column == all->batch->columns - 1 && given <= MOST_OF_ONE_ID) return ID_WEIGHT;
    return max_i64(KEY_WEIGHT / given, 1);
}

/* Put the candidates with the highest scores, of equals the newest, into `best`, the oldest first. Returns their
 * number. */
static int64_t keep_best(const judge *all, candidate *best) {
    int64_t n = 0;
    for (int64_t k = 0; k < all->found_count; k++) { /* `best` is ascending by score */
        candidate one = all->found[k];
        if (n == MAX_CANDIDATES && one.score < best[0].score) continue;
        if (n == MAX_CANDIDATES && one.score == best[0].score && one.row < best[0].row) continue;
        if (n == MAX_CANDIDATES) memmove(best, best + 1, (size_t)--n * sizeof *best);
        int64_t at = n++;
        for (; at && (best[at - 1].score > one.score || (best[at - 1].score == one.score && best[at - 1].row > one.row));
             at--)
            best[at] = best[at - 1];
        best[at] = one;
    }
    for (int64_t k = 1; k < n; k++) {
        candidate one = best[k];
        int64_t at = k;
        for (; at && best[at - 1].row > one.row; at--) best[at] = best[at - 1];
        best[at] = one;
    }
    return n;
}

/* Choose the candidates of item j, the oldest first. Returns their number, or NONE if the index gave too few rows. */
static int64_t choose(judge *all, int64_t j, candidate *best) {
    size_t columns = (size_t)all->batch->columns * sizeof(int64_t);
    memset(all->given, 0, columns);
    memset(all->listed, 0, columns);
    memset(all->missing, 0, columns);
    all->found_count = all->hit_count = 0;
    find_in_batch(all, j);
    if (!find_in_index(all, j)) return NONE;
    for (int64_t k = 0; k < all->hit_count; k++)
        all->found[all->hits[k].candidate].score += weight_of(all, all->hits[k].column);
    return keep_best(all, best);
}

/* ---- the questions ---- */

/* The elapsed event time at which a candidate arrived, ms. */
static int64_t arrival_of(const batch *all, const candidate *one) {
    if (one->item != NONE) return all->subjects[one->item].step * all->step_length;
    int64_t low = 0, high = all->arrival_count; /* the last step that does not begin behind the row */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (all->arrival_rows[middle] <= one->row)
            low = middle + 1;
        else
            high = middle;
    }
    return all->arrival_times[low];
}

static int64_t distance(int64_t a, int64_t b) {
    uint64_t apart = (uint64_t)a - (uint64_t)b; /* of times in damaged data it may overflow */
    return (int64_t)((int64_t)apart < 0 ? -apart : apart);
}

/* Hours between an item and a candidate. If the effective times are more than a window apart, the item's stated time
 * counts if it is not, and otherwise the time between the two arrivals. */
static float hours_apart(const batch *all, int64_t j, const candidate *one, const uint8_t *signature) {
    const subject *item = &all->subjects[j];
    int64_t gap = distance(item->time, time_of(signature));
    if (gap > all->window) gap = distance(item->stated, time_of(signature));
    if (gap > all->window) gap = min_i64(max_i64(item->elapsed - arrival_of(all, one), 0), all->window);
    return (float)((double)gap / HOUR);
}

/* Measure how similar item j and its candidates are. */
static void compare(judge *all, int64_t j, const candidate *candidates, int64_t n, similarity *s) {
    view item = view_at(&all->batch->items, j), known[MAX_CANDIDATES];
    for (int64_t k = 0; k < n; k++) {
        known[k] = view_of(all->batch, &candidates[k]);
        s[k].apart = hours_apart(all->batch, j, &candidates[k], known[k].signature);
    }
    measure(all->room, s, all->news, j - all->batch->settled, &item, known, n);
}

/* A finding, the candidate that decided, and the log-odds of novelty against it, if it was asked. */
typedef struct ruling {
    finding finding;
    int64_t by;
    float logit;
} ruling;

/* Whether a candidate is an earlier version: it has the id, and the source or a text that is the same article. */
static bool is_version(const similarity *s, const thresholds *t) {
    return s->same_id && (s->same_source || (t->is_plain ? is_alike(s, t) : is_same_article(s, t)));
}

/* The candidate that the item lacks least of. By plain similarity, the one whose body is most alike. */
static ruling lacks_least(const similarity *s, int64_t n, const thresholds *t) {
    ruling least = {NOTHING_NEW, 0, NAN};
    float lowest = INFINITY;
    for (int64_t k = 0; k < n; k++) {
        if (t->is_plain) {
            if (is_alike(&s[k], t) && !(s[least.by].body >= s[k].body)) least.by = k;
            continue;
        }
        float logit = novelty_logit(&s[k], t);
        if (logit < lowest) lowest = least.logit = logit, least.by = k;
    }
    bool is_held = t->is_plain ? is_alike(&s[least.by], t) : lowest < t->hold_below;
    if (!is_held) least.finding = DIFFERENT;
    return least;
}

/* The candidate that most likely is the same article, or the one that the item lacks least of. */
static ruling likeliest(const similarity *s, int64_t n, const thresholds *t, ruling least) {
    if (t->is_plain) return (ruling){DIFFERENT, least.by, NAN};
    int64_t best = least.by;
    float closest = -INFINITY;
    for (int64_t k = 0; k < n; k++) {
        float kinship = kinship_logit(&s[k], t);
        if (kinship > closest) closest = kinship, best = k;
    }
    bool is_same = closest >= t->same_article && !is_another_event(&s[best], t);
    return (ruling){is_same ? REVISED : DIFFERENT, best, novelty_logit(&s[best], t)};
}

/* Judge an item by its similarities to n candidates, the oldest first: the questions of decide.py. Of equal candidates
 * the oldest decides, of versions the newest. */
static ruling judge_item(const similarity *s, int64_t n, const thresholds *t, bool forwards) {
    /* 1. Is it sent again? */
    for (int64_t k = 0; k < n; k++)
        if (s[k].same_id && s[k].same_text) return (ruling){SAME_ID, k, NAN};

    int64_t version = NONE, repeated = NONE;
    for (int64_t k = 0; k < n; k++) {
        if (is_version(&s[k], t))
            version = k;
        else if (repeated == NONE && is_repeat(&s[k], t))
            repeated = k;
    }
    if (forwards && version != NONE) return (ruling){VERSION, version, NAN};

    /* 2. Has another item the same words? */
    if (repeated != NONE) return (ruling){SAME_TEXT, repeated, NAN};

    /* 3. Has it nothing new for a reader of a candidate? */
    ruling least = lacks_least(s, n, t);
    if (least.finding == NOTHING_NEW) return least;

    /* 4. Is it a new version, or else the same article? 5. If not, it is another one. */
    if (version != NONE) return (ruling){VERSION, version, t->is_plain ? NAN : novelty_logit(&s[version], t)};
    return likeliest(s, n, t, least);
}

/* The newest original that a tombstone withdraws. */
static ruling withdrawn(const judge *all, int64_t j, const candidate *candidates, int64_t n) {
    for (int64_t k = n - 1; k >= 0; k--) {
        const uint8_t *known = view_of(all->batch, &candidates[k]).signature;
        if (row_id_of(known) == all->batch->subjects[j].row_id) return (ruling){SAME_ID, k, NAN};
    }
    return (ruling){NEW, NONE, NAN};
}

/* ---- what an item leaves behind ---- */

static void forget(judge *all, uint64_t name) {
    batch *b = all->batch;
    b->deletions[b->deleted] = (deletion){b->added, name};
    *slot_of(all, name) = (int32_t)++b->deleted;
}

/* Leave behind what later items find: the item itself, what it replaces or withdraws, and its passages. decided: the
 * signature of the candidate that decided, or NULL. */
static void remember(judge *all, int64_t j, const uint8_t *decided) {
    batch *b = all->batch;
    const subject *item = &b->subjects[j];
    outcome *out = &b->outcomes[j];
    finding found = out->finding;
    bool is_other = item->kind == ITEM && (found == NEW || found == DIFFERENT);
    /* A withdrawal, also of originals outside its window: who withdraws an item may have another clock. */
    if (item->kind == TOMBSTONE) forget(all, item->row_id);
    if (found == VERSION && !b->drops) forget(all, version_of(item->row_id, digest_of(decided)));
    if (is_other || (!b->drops && (found == VERSION || found == REVISED))) {
        out->is_added = true;
        out->row_number = b->next_row + b->added++;
    }
    if (is_other && all->news->asks_novelty) {
        const texts *texts = &all->news->texts;
        int64_t i = j - b->settled, first = texts->firsts[2 * i], count = texts->lasts[2 * i] - first;
        const passage *passages = texts->passages + first;
        add_original(&all->news->boilerplate, &passages->hash, sizeof *passages, count, item->seen_at, all->log);
    }
}

/* Let the links of item j pass over items that are not remembered. */
static void link_to_remembered(const batch *all, int64_t j) {
    for (int64_t column = 0; column < all->columns; column++) {
        int32_t *link = &all->links[j * all->columns + column];
        int64_t i = *link >> ROW_SHIFT, other = *link & COLUMN;
        if (*link >= 0 && !all->outcomes[i].is_added) *link = all->links[i * all->columns + other];
    }
}

/* ---- the loop ---- */

/* Take the memory that a call needs, and note what is forgotten already. Returns 0 or an error. */
static int64_t prepare(judge *all, arena *scratch) {
    batch *b = all->batch;
    int64_t most = 0, slots = 2;
    for (int64_t j = 0; j < b->items.count; j++) {
        const subject *item = &b->subjects[j];
        if (item->first_word < 0 || item->first_word > item->last_word || item->last_word > b->word_count)
            return CORE_BAD_SIZE;
        most = max_i64(most, item->last_word - item->first_word);
    }
    for (int64_t w = 0; w < b->word_count; w++) {
        int64_t row = (b->words[w] >> ROW_SHIFT & UINT32_MAX) + b->first_row;
        if (row < b->first_stored || row >= b->next_row || (b->words[w] & COLUMN) >= b->columns) return CORE_BAD_SIZE;
    }
    most += b->columns * min_i64(b->bucket_limit, b->items.count);
    while (slots < 2 * b->deletion_room) slots *= 2;
    all->gone_mask = (uint64_t)slots - 1;
    all->gone = arena_take(scratch, slots, sizeof *all->gone);
    all->places = arena_take(scratch, b->items.count, sizeof *all->places);
    all->found = arena_take(scratch, most, sizeof *all->found);
    all->hits = arena_take(scratch, most, sizeof *all->hits);
    all->given = arena_take(scratch, 3 * b->columns, sizeof *all->given);
    if (!all->gone || !all->places || !all->found || !all->hits || !all->given) return CORE_NO_MEMORY;
    all->listed = all->given + b->columns;
    all->missing = all->listed + b->columns;
    memset(all->gone, 0, (size_t)slots * sizeof *all->gone);
    memset(all->places, NONE, (size_t)b->items.count * sizeof *all->places);
    for (int64_t k = 0; k < b->deleted; k++) *slot_of(all, b->deletions[k].name) = (int32_t)(k + 1);
    return take_workspace(scratch, all->news, &b->items, &all->room);
}

int64_t judge_items(arena *scratch, batch *b, const news *news, const thresholds *rule, changes *log, int64_t j) {
    arena_reset(scratch);
    judge all = {.batch = b, .news = news, .rule = rule, .log = log};
    int64_t error = prepare(&all, scratch);
    if (error) return error;
    candidate candidates[MAX_CANDIDATES];
    similarity s[MAX_CANDIDATES];
    for (; j < b->items.count; j++) {
        link_to_remembered(b, j);
        if (b->subjects[j].kind == EMPTY) continue;
        int64_t n = choose(&all, j, candidates);
        if (n == NONE) return j;
        outcome *out = &b->outcomes[j];
        ruling found = {NEW, NONE, NAN};
        if (b->subjects[j].kind == TOMBSTONE) {
            found = withdrawn(&all, j, candidates, n);
        } else if (n) {
            compare(&all, j, candidates, n, s);
            found = judge_item(s, n, rule, b->forwards);
            out->similar = s[found.by];
        }
        const candidate *by = found.by == NONE ? NULL : &candidates[found.by];
        out->candidates = (int32_t)n;
        out->finding = (uint8_t)found.finding;
        out->logit = found.logit;
        out->row = !by ? NO_ROW : by->item == NONE ? by->row : -1 - by->item;
        remember(&all, j, by ? view_of(b, by).signature : NULL);
    }
    return b->items.count;
}

int64_t link_items(arena *scratch, const uint32_t *keys, int64_t count, const int64_t *first_columns, int64_t tables,
                   const int64_t *dont_care_bits, int32_t *links) {
    arena_reset(scratch);
    int64_t columns = first_columns[tables], widest = 1, bits = 6;
    for (int64_t t = 0; t < tables; t++) widest = max_i64(widest, first_columns[t + 1] - first_columns[t]);
    if (count >= 1 << (31 - ROW_SHIFT) || columns > COLUMN) return CORE_BAD_SIZE;
    while (1ll << bits < 4 * count * widest) bits++; /* three slots in four stay free: probe sequences are short */
    int64_t size = 1ll << bits;
    int32_t *newest = arena_take(scratch, size, sizeof *newest); /* hash table: where each key was last */
    if (!newest) return CORE_NO_MEMORY;
    memset(links, NONE, (size_t)(count * columns) * sizeof *links);
    for (int64_t t = 0; t < tables; t++) {
        memset(newest, NONE, (size_t)size * sizeof *newest);
        uint32_t ignored = (uint32_t)((1ull << dont_care_bits[first_columns[t]]) - 1);
        for (int64_t node = 0; node < count << ROW_SHIFT; node += 1 << ROW_SHIFT) {
            const uint32_t *own = keys + (node >> ROW_SHIFT) * columns;
            for (int64_t column = first_columns[t]; column < first_columns[t + 1]; column++) {
                if (!own[column]) continue;
                uint32_t bucket = own[column] | ignored;
                int64_t slot = (int64_t)((bucket * GOLDEN) >> (64 - bits)), at;
                for (; (at = newest[slot]) >= 0; slot = (slot + 1) & (size - 1))
                    if ((keys[(at >> ROW_SHIFT) * columns + (at & COLUMN)] | ignored) == bucket) break;
                bool is_twice = at >= node; /* the item has the key twice: its first column stands for both */
                int32_t *link = links + (node >> ROW_SHIFT) * columns + column;
                *link = is_twice ? links[(at >> ROW_SHIFT) * columns + (at & COLUMN)] : (int32_t)at;
                if (!is_twice) newest[slot] = (int32_t)(node | column);
            }
        }
    }
    return count;
}

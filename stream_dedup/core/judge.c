/* Judge a batch, item by item, each against what all items before it left behind.
 *
 * decide.py says what an item is asked; judge_item asks it. `remember` is what an item leaves behind for later ones, and
 * judge_items the loop. candidates.c chooses what an item is compared with, similarity.c compares, and rule.c says what
 * that means.
 */
#include "core.h"

#include <math.h>

static const double HOUR = 3600000; /* ms */

/* All that a call works with. */
typedef struct judge {
    batch *batch;
    const news *news;
    const thresholds *rule;
    changes *log;
    search *search;
    workspace *room;
} judge;

/* ---- the questions ---- */

/* A finding, the candidate that decided, and the log-odds of novelty against it, if it was asked. */
typedef struct ruling {
    finding finding;
    int64_t by;
    float logit;
} ruling;

/* Whether the two texts are one article, by the rule in force. */
static bool is_one_article(const similarity *s, const thresholds *t) {
    return t->is_plain ? is_alike(s, t) : is_same_article(s, t);
}

/* Whether a candidate is an earlier version: it has the id, and the source or a text that is the same article. */
static bool is_version(const similarity *s, const thresholds *t) {
    return s->same_id && (s->same_source || is_one_article(s, t));
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
        if (logit < lowest) {
            lowest = least.logit = logit;
            least.by = k;
        }
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
        if (kinship > closest) {
            closest = kinship;
            best = k;
        }
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

/* Whether the finding holds the item back. */
static bool is_held(const batch *all, finding found) {
    bool is_update = found == VERSION || found == REVISED;
    return found == SAME_ID || found == SAME_TEXT || found == NOTHING_NEW || (is_update && all->drops);
}

/* Whether the article of an item that is held back has come from its own source or from a preferred one. */
static bool has_come(const judge *all, const candidate *candidates, const similarity *s, int64_t n, int64_t by) {
    const thresholds *t = all->rule;
    for (int64_t k = 0; k < n; k++) {
        bool is_ours = s[k].same_source;
        uint64_t source = source_of(view_of(all->batch, &candidates[k]).signature);
        for (int64_t p = 0; p < all->batch->preferred_count; p++) is_ours |= source == all->batch->preferred[p];
        bool is_same = k == by || is_repeat(&s[k], t) || is_one_article(&s[k], t);
        if (is_ours && is_same) return true;
    }
    return false;
}

/* ---- comparing ---- */

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

/* Hours between an item and a candidate. If the effective times are more than a window apart, the item's stated time
 * counts if it is not, and otherwise the time between the two arrivals. */
static float hours_apart(const batch *all, int64_t j, const candidate *one, const uint8_t *signature) {
    const subject *item = &all->subjects[j];
    int64_t gap = time_between(item->time, time_of(signature));
    if (gap > all->window) gap = time_between(item->stated, time_of(signature));
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

/* The newest original that a tombstone withdraws. */
static ruling withdrawn(const batch *all, int64_t j, const candidate *candidates, int64_t n) {
    for (int64_t k = n - 1; k >= 0; k--) {
        const uint8_t *known = view_of(all, &candidates[k]).signature;
        if (row_id_of(known) == all->subjects[j].row_id) return (ruling){SAME_ID, k, NAN};
    }
    return (ruling){NEW, NONE, NAN};
}

/* ---- what an item leaves behind ---- */

/* Leave behind what later items find: the item itself, what it replaces or withdraws, and its passages. decided: the
 * signature of the candidate that decided, or NULL. */
static void remember(judge *all, int64_t j, const uint8_t *decided) {
    batch *b = all->batch;
    const subject *item = &b->subjects[j];
    outcome *out = &b->outcomes[j];
    finding found = out->finding;
    bool is_other = item->kind == ITEM && (found == NEW || found == DIFFERENT);
    /* A withdrawal, also of originals outside its window: who withdraws an item may have another clock. */
    if (item->kind == TOMBSTONE) note_deletion(all->search, item->row_id);
    if (found == VERSION && !b->drops) note_deletion(all->search, version_of(item->row_id, digest_of(decided)));
    if (is_other || found == PREFERRED || (!b->drops && (found == VERSION || found == REVISED))) {
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

/* ---- the loop ---- */

/* Judge item j, and leave behind what later ones find. Returns whether the index gave enough rows. */
static bool judge_next(judge *all, int64_t j) {
    batch *b = all->batch;
    candidate candidates[MAX_CANDIDATES];
    int64_t n = choose_candidates(all->search, j, candidates);
    if (n == NONE) return false;
    outcome *out = &b->outcomes[j];
    ruling found = {NEW, NONE, NAN};
    if (b->subjects[j].kind == TOMBSTONE) {
        found = withdrawn(b, j, candidates, n);
    } else if (n) {
        similarity s[MAX_CANDIDATES];
        compare(all, j, candidates, n, s);
        found = judge_item(s, n, all->rule, b->forwards);
        bool is_wanted = b->subjects[j].is_preferred && is_held(b, found.finding);
        if (is_wanted && !has_come(all, candidates, s, n, found.by)) found.finding = PREFERRED;
        out->similar = s[found.by];
    }
    const candidate *by = found.by == NONE ? NULL : &candidates[found.by];
    out->candidates = (int32_t)n;
    out->finding = (uint8_t)found.finding;
    out->logit = found.logit;
    if (by) out->row = by->item == NONE ? by->row : -1 - by->item;
    remember(all, j, by ? view_of(b, by).signature : NULL);
    return true;
}

/* Judge the items from j on. Returns their number, or the one for which the index has to be asked for more rows. */
CORE_API int64_t judge_items(arena *scratch, batch *b, const news *news, const thresholds *rule, changes *log,
                             int64_t j) {
    arena_reset(scratch);
    judge all = {.batch = b, .news = news, .rule = rule, .log = log};
    int64_t error = take_search(scratch, b, &all.search);
    if (!error) error = take_workspace(scratch, news, &b->items, &all.room);
    if (error) return error;
    while (j < b->items.count && (b->subjects[j].kind == EMPTY || judge_next(&all, j))) j++;
    return j;
}

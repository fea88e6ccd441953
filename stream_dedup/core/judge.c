/* Judge a batch, item by item, each against what all earlier items left behind.
 *
 * An item has candidates: earlier items that share a key with it. `judge_item` asks these questions in this order; the
 * first answer is the finding. (With `policy.updates` = "forward" VERSION comes before question 2.)
 *
 * 1. Is the item sent again? A candidate has its id and its words: SAME_ID. 2. Has a candidate the same words, headline
 * included? SAME_TEXT. 3. Would a reader of a candidate find nothing new? NOTHING_NEW, against the candidate with the
 * lowest novelty. 4. Is a candidate an earlier version of the item, by its id? VERSION. Or the same article? REVISED.
 * 5. Otherwise the item is another article: DIFFERENT; NEW without a candidate.
 *
 * For example, one site publishes one text under two headlines. The two items share keys of the body (candidates.c).
 * Their words differ, so 1 and 2 do not hold. similarity.c measures the pair; novelty.c counts the words of the second
 * article and headline that the first item lacks; rule.c turns both into the log-odds of novelty. If these are below
 * the setting, question 3 holds the second item back. They are higher if the new headline says something that the first
 * item lacks and the second text has.
 *
 * An item that is held back may be let through for its source: PREFERRED. `remember` is what an item leaves behind for
 * later ones. decide.py prepares the batch and says what each field means.
 */
#include "core.h"

#include <math.h>

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

/* A finding, the candidate that decided, and the log-odds of novelty against it, if they were computed. */
typedef struct answer {
    finding finding;
    int64_t by;
    float logit;
} answer;

/* Whether the two texts are one article, by the rule in force. */
static bool is_one_article(const similarity *pair, const thresholds *rule) {
    return rule->is_plain ? is_alike(pair, rule) : is_same_article(pair, rule);
}

/* Whether a candidate is an earlier version: it has the id, and the source or a text that is the same article. */
static bool is_version(const similarity *pair, const thresholds *rule) {
    return pair->same_id && (pair->same_source || is_one_article(pair, rule));
}

/* The candidate with the lowest novelty. Where plain similarity decides, the most similar of those that are alike. */
static answer least_novel(const similarity *pairs, int64_t count, const thresholds *rule) {
    answer least = {NOTHING_NEW, 0, NAN};
    float lowest = INFINITY;
    for (int64_t k = 0; k < count; k++) {
        if (rule->is_plain) {
            /* "Not at least as high": an unknown similarity counts as the lowest. */
            if (is_alike(&pairs[k], rule) && !(pairs[least.by].body >= pairs[k].body)) least.by = k;
            continue;
        }
        float logit = novelty_logit(&pairs[k], rule);
        if (logit < lowest) {
            lowest = least.logit = logit;
            least.by = k;
        }
    }
    bool is_held = rule->is_plain ? is_alike(&pairs[least.by], rule) : lowest < rule->hold_below;
    if (!is_held) least.finding = DIFFERENT;
    return least;
}

/* The candidate that most likely is the same article; else the one with the lowest novelty. */
static answer likeliest(const similarity *pairs, int64_t count, const thresholds *rule, answer least) {
    if (rule->is_plain) return (answer){DIFFERENT, least.by, NAN};
    int64_t best = least.by;
    float highest = -INFINITY;
    for (int64_t k = 0; k < count; k++) {
        float kinship = kinship_logit(&pairs[k], rule);
        if (kinship > highest) {
            highest = kinship;
            best = k;
        }
    }
    bool is_same = is_same_by(highest, &pairs[best], rule);
    return (answer){is_same ? REVISED : DIFFERENT, best, novelty_logit(&pairs[best], rule)};
}

/* Judge an item by its similarities to its candidates, the oldest first. Ties go to the oldest, between versions to the
 * newest. */
static answer judge_item(const similarity *pairs, int64_t count, const thresholds *rule, bool forwards) {
    /* 1. Is it sent again? */
    for (int64_t k = 0; k < count; k++)
        if (pairs[k].same_id && pairs[k].same_text) return (answer){SAME_ID, k, NAN};

    int64_t version = NONE, repeated = NONE;
    for (int64_t k = 0; k < count; k++) {
        if (is_version(&pairs[k], rule)) version = k;
        else if (repeated == NONE && is_repeat(&pairs[k])) repeated = k;
    }
    if (forwards && version != NONE) return (answer){VERSION, version, NAN};

    /* 2. Has a candidate the same words? */
    if (repeated != NONE) return (answer){SAME_TEXT, repeated, NAN};

    /* 3. Would a reader of a candidate find nothing new? */
    answer least = least_novel(pairs, count, rule);
    if (least.finding == NOTHING_NEW) return least;

    /* 4. Is it a new version, or the same article? 5. If not, it is another one. */
    if (version == NONE) return likeliest(pairs, count, rule, least);
    return (answer){VERSION, version, rule->is_plain ? NAN : novelty_logit(&pairs[version], rule)};
}

/* Whether the finding holds the item back. */
static bool is_held(const batch *batch, finding finding) {
    bool is_update = finding == VERSION || finding == REVISED;
    return finding == SAME_ID || finding == SAME_TEXT || finding == NOTHING_NEW || (is_update && batch->drops);
}

/* Whether the article of an item that is held back has come from its own source or from a preferred one. */
static bool has_come(const judge *judge, const candidate *candidates, const similarity *pairs, int64_t count,
                     int64_t by) {
    const batch *batch = judge->batch;
    for (int64_t k = 0; k < count; k++) {
        bool is_ours = pairs[k].same_source;
        uint64_t source = source_of(view_of(batch, &candidates[k]).signature);
        for (int64_t p = 0; p < batch->preferred_count; p++) is_ours |= source == batch->preferred[p];
        bool is_same = k == by || is_repeat(&pairs[k]) || is_one_article(&pairs[k], judge->rule);
        if (is_ours && is_same) return true;
    }
    return false;
}

/* ---- comparing ---- */

/* The elapsed event time at which a candidate arrived, ms. */
static int64_t arrival_of(const batch *batch, const candidate *one) {
    if (one->item != NONE) return batch->subjects[one->item].step * batch->arrivals.step_length;
    int64_t step = batch->arrivals.count; /* the last one that does not begin after the row, of some 66 */
    while (step > 0 && batch->arrivals.rows[step - 1] > one->row) step--;
    return batch->arrivals.times[step];
}

/* Hours between an item and a candidate, by the first of these that is within a window of the candidate's time: the
 * item's effective time, its stated time; else between the two arrivals. */
static float hours_apart(const batch *batch, int64_t item, const candidate *one, const uint8_t *known) {
    const subject *subject = &batch->subjects[item];
    int64_t gap = time_between(subject->time, time_of(known)), window = batch->arrivals.window;
    if (gap > window) gap = time_between(subject->stated, time_of(known));
    if (gap > window) gap = min_i64(max_i64(subject->elapsed - arrival_of(batch, one), 0), window);
    return (float)((double)gap / HOUR);
}

/* Measure how similar an item and its candidates are. */
static void compare(judge *judge, int64_t item, const candidate *candidates, int64_t count, view *known,
                    similarity *pairs) {
    const batch *batch = judge->batch;
    view own = view_at(&batch->items, item);
    for (int64_t k = 0; k < count; k++) {
        known[k] = view_of(batch, &candidates[k]);
        __builtin_prefetch(known[k].body); /* the next candidates' words come while the first is compared */
        int64_t age = batch->subjects[item].step - arrival_of(batch, &candidates[k]) / batch->arrivals.step_length;
        known[k].is_old = age > batch->arrivals.text_steps;
        pairs[k].apart = hours_apart(batch, item, &candidates[k], known[k].signature);
    }
    measure(judge->room, pairs, judge->news, item - batch->pending, &own, known, count);
}

/* The newest original that a tombstone withdraws. */
static answer withdrawn(const batch *batch, int64_t item, const candidate *candidates, int64_t count) {
    for (int64_t k = count - 1; k >= 0; k--) {
        const uint8_t *known = view_of(batch, &candidates[k]).signature;
        if (row_id_of(known) == batch->subjects[item].row_id) return (answer){SAME_ID, k, NAN};
    }
    return (answer){NEW, NONE, NAN};
}

/* ---- what an item leaves behind ---- */

/* Jaccard of two headlines that may be of one form: "Magnitude 5.1 quake near Elm", "Magnitude 6.3 quake near Oak". */
static const float LIKE_HEADLINES = 0.3f;

/* Leave behind what later items find: the item itself, what it replaces or withdraws, and its passages. decided: the
 * signature of the candidate that decided, or NULL. */
static void remember(judge *judge, int64_t item, const uint8_t *decided) {
    batch *batch = judge->batch;
    const subject *subject = &batch->subjects[item];
    outcome *outcome = &batch->outcomes[item];
    finding finding = outcome->finding;
    bool is_another = subject->kind == ITEM && (finding == NEW || finding == DIFFERENT);
    /* A tombstone also deletes originals outside its window: who withdraws an item may have another clock. */
    if (subject->kind == TOMBSTONE) note_deletion(judge->search, subject->row_id);
    if (finding == VERSION && !batch->drops)
        note_deletion(judge->search, version_of(subject->row_id, digest_of(decided)));
    if (is_another || finding == PREFERRED || (!batch->drops && (finding == VERSION || finding == REVISED))) {
        outcome->is_added = true;
        outcome->row_number = batch->rows.next + batch->added++;
    }
    /* What recurs in reports under like headlines may be what they report, such as a warning. */
    outcome->is_counted = is_another && (finding == NEW || !(outcome->similar.headline >= LIKE_HEADLINES));
    if (outcome->is_counted && judge->news->asks_novelty) {
        const texts *texts = &judge->news->texts;
        int64_t text = item - batch->pending, first = texts->firsts[2 * text], count = texts->lasts[2 * text] - first;
        const passage *passages = texts->passages + first;
        add_original(&judge->news->boilerplate, &passages->hash, sizeof *passages, count, subject->seen_at, judge->log);
    }
}

/* ---- the loop ---- */

/* Judge one item, and leave behind what later ones find. Returns a number below 0 as `choose_candidates` does. */
static int64_t judge_next(judge *judge, int64_t item) {
    batch *batch = judge->batch;
    candidate candidates[MAX_CANDIDATES];
    int64_t count = choose_candidates(judge->search, item, candidates);
    if (count < 0) return count;
    outcome *outcome = &batch->outcomes[item];
    answer answer = {NEW, NONE, NAN};
    if (batch->subjects[item].kind == TOMBSTONE) {
        answer = withdrawn(batch, item, candidates, count);
    } else if (count) {
        similarity pairs[MAX_CANDIDATES];
        view known[MAX_CANDIDATES];
        compare(judge, item, candidates, count, known, pairs);
        answer = judge_item(pairs, count, judge->rule, batch->forwards);
        bool is_wanted = batch->subjects[item].is_preferred && is_held(batch, answer.finding);
        if (is_wanted && !has_come(judge, candidates, pairs, count, answer.by)) answer.finding = PREFERRED;
        outcome->similar = pairs[answer.by];
        bool is_update = answer.finding == VERSION || answer.finding == REVISED || answer.finding == PREFERRED;
        if (is_update && judge->news->asks_novelty)
            describe(judge->room, pairs + answer.by, judge->news, item - batch->pending, known + answer.by, &outcome->adds);
    }
    const candidate *by = answer.by == NONE ? NULL : &candidates[answer.by];
    outcome->candidates = (int32_t)count;
    outcome->finding = (uint8_t)answer.finding;
    outcome->logit = answer.logit;
    const uint8_t *decided = by ? view_of(batch, by).signature : NULL;
    if (by) {
        outcome->row = by->item == NONE ? by->row : -1 - by->item;
        memcpy(&outcome->original, decided + TIME_AT, sizeof outcome->original);
    }
    remember(judge, item, decided);
    return 0;
}

/* Take what a batch is judged with. */
static int64_t begin(arena *scratch, batch *batch, const news *news, const thresholds *rule, changes *log) {
    arena_reset(scratch);
    judge *judge = batch->state = arena_take(scratch, 1, sizeof *judge);
    if (!judge) return CORE_NO_MEMORY;
    *judge = (struct judge){.batch = batch, .news = news, .rule = rule, .log = log};
    int64_t error = take_search(scratch, batch, &judge->search);
    return error ? error : take_workspace(scratch, news, &batch->items, &judge->room);
}

/* Judge the items from number `item` on. Returns their number, or the one for which the index has to be asked again,
 * without the rows that this batch has deleted. The next call continues there, so the arena must be the judge's own. */
CORE_API int64_t judge_items(arena *scratch, batch *batch, const news *news, const thresholds *rule, changes *log,
                             int64_t item) {
    int64_t result = batch->state ? 0 : begin(scratch, batch, news, rule, log);
    if (result) return result;
    for (; item < batch->items.count && !result; item += !result)
        if (batch->subjects[item].kind != EMPTY) result = judge_next(batch->state, item);
    return result && result != NONE ? result : item;
}

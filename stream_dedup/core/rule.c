/* The rule for one pair: features, boosted trees, log-odds. dedup/rule.py explains each name, and gives all weights and
 * thresholds.
 *
 * A feature is one line here, and one entry of the same name in dedup/rule.py, which compares the names when it is
 * imported.
 */
#include "core.h"

#include <math.h>

static inline float or_other(float share, float other) { return isnan(share) ? other : share; }
static inline float or_zero(float share) { return or_other(share, 0); }
static inline float or_one(float share) { return isnan(share) ? 1 : share; }
static inline float or_minus_one(float share) { return isnan(share) ? -1 : share; }
static inline float larger(const similarity *pair, const thresholds *rule) {
    return min_f32(max_f32(pair->log_size_ratio, rule->least_ratio), rule->most_ratio);
}

bool is_repeat(const similarity *pair, const thresholds *rule) {
    bool another_day = pair->same_source && pair->smaller_size < rule->shortest && pair->apart > rule->next_day;
    return pair->same_text && !another_day;
}

bool is_another_event(const similarity *pair, const thresholds *rule) {
    return pair->same_text && !is_repeat(pair, rule);
}

bool is_alike(const similarity *pair, const thresholds *rule) {
    return isnan(pair->distance) ? pair->body >= rule->body : pair->within_hamming;
}

/* Whether the new item of a pair reports on another day in the form of the known one. */
static bool is_bulletin(const similarity *pair, const thresholds *rule) {
    if (pair->apart < rule->bulletin_hours) return false;
    if (pair->same_text) return is_another_event(pair, rule);
    float least = rule->figures * max_f32(pair->words, rule->fewest_words);
    bool has_figures = pair->numbers + pair->headline_numbers >= least;
    if (has_figures && pair->new_numbers + pair->new_headline_numbers >= rule->one_figure) return true;
    bool is_reworded = pair->covered < rule->same_wording && pair->tokens < rule->form_tokens;
    if (is_reworded && pair->apart > rule->next_day) return true;
    bool has_form = pair->same_source && pair->same_form;
    return has_form && pair->new_numbers_anywhere + pair->new_headline_numbers >= rule->one_figure;
}

/* Whether the new item of a pair is another day's item of a series: a bulletin, or the same headline over a text of its
 * own, as the name of a section ("Latest news"). */
static bool is_series(const similarity *pair, const thresholds *rule) {
    bool has_headline = pair->same_source && pair->headline >= rule->same_headline;
    bool is_section = has_headline && pair->containment < rule->another_text;
    return is_bulletin(pair, rule) || (is_section && pair->apart >= rule->bulletin_hours);
}

/* Whether more than a few words are new or lost: these are boilerplate, in which figures come and go. */
static bool has_others(const similarity *pair, const thresholds *rule) {
    return pair->new_words > rule->few_new || pair->lost_words > rule->few_lost;
}

static bool is_reordered(const similarity *pair, const thresholds *rule) {
    bool is_other_text = isnan(pair->unmatched) ? pair->covered < rule->same_order : pair->unmatched >= 1;
    return pair->other_order && is_other_text && !has_others(pair, rule);
}

/* Whether the new item is a headline alone that says something else: a figure that the known item lacks; and if that is
 * a headline alone, too, any new word, or the same figures in other places. */
static bool is_flash(const similarity *pair, const thresholds *rule) {
    if (pair->smaller_size > 0 || pair->log_size_ratio > 0) return false; /* the new item has a text */
    if (pair->new_headline_numbers >= rule->one_figure) return true;
    bool has_swapped = pair->headline >= 1 && pair->same_form && !pair->same_text;
    return pair->log_size_ratio == 0 && (pair->new_headline >= 1 || has_swapped);
}

/* Whether it is another notice in the words of its source: a short text with a figure in the place of another one; or a
 * shorter one with another number or word in the headline alone, or with words that are added and replace none. */
static bool is_notice(const similarity *pair, const thresholds *rule) {
    float size = (float)pair->smaller_size;
    if (!pair->same_source || size == 0 || size >= rule->notice) return false;
    if (fabsf(pair->log_size_ratio) > rule->same_size) return false;
    bool is_same_headline = pair->headline >= rule->same_headline;
    bool is_replaced = pair->new_numbers >= rule->one_figure && pair->lost_numbers >= 1;
    if (is_same_headline && is_replaced) return true;
    if (size >= rule->short_notice) return false;
    if (pair->same_form && pair->new_headline_numbers >= rule->one_figure) return true;
    if (is_same_headline) return pair->gained_words >= rule->few_gained && pair->lost_words < 1;
    return pair->headline >= rule->one_word && pair->new_headline <= 1 && pair->body >= rule->same_body;
}

/* Whether it is a new version of its id, with a new sentence, a few new words, or a word or figure in another's place. */
static bool is_new_version(const similarity *pair, const thresholds *rule) {
    bool is_changed = pair->facts + pair->altered + pair->brief > 0;
    return pair->same_id && (is_changed || pair->new_sentences > 0 || pair->new_words >= rule->new_to_version);
}

/* Whether an item with an article of its own has no run of words in common with a text; menus are no article. */
static bool shares_nothing(const similarity *pair, const thresholds *rule) {
    if (!((float)pair->smaller_size >= rule->own_words && pair->tokens >= rule->own_words)) return false;
    return isnan(pair->matched) ? pair->covered <= 0 && pair->body <= 0 : pair->matched <= 0;
}

/* Whether one form is filled in otherwise: a word of the headline and a figure have others in their places in the text. */
static bool is_filled(const similarity *pair) { return pair->facts >= 1 && pair->altered_headline >= 1; }

/* Whether the text is as long as the known one. */
static bool is_as_long(const similarity *pair, const thresholds *rule) {
    return fabsf(pair->log_size_ratio) < rule->same_length;
}

/* Whether the story goes on: another headline, whose new words stand in a rewritten first sentence of the same text. */
static bool is_follow_up(const similarity *pair, const thresholds *rule) {
    if (!(pair->headline < rule->alike_headline) || !is_as_long(pair, rule)) return false;
    bool is_said = pair->said >= rule->few_said && pair->rest <= rule->small_rest;
    return is_said || (pair->said >= rule->more_said && pair->rest <= rule->some_rest);
}

/* Whether a word of the headline has another in its place in the text, and hardly anything else is new. */
static bool is_turned(const similarity *pair, const thresholds *rule) {
    bool is_same = pair->headline >= rule->another_headline && is_as_long(pair, rule);
    return is_same && pair->altered_headline >= 1 && pair->unmatched <= rule->few_unmatched;
}

/* Where nearly all else is known: words that were replaced, or put in as short sentences, if no longer one is new; and
 * words of the headline that a new sentence says, and the known item nowhere. */
static float edited(const similarity *pair, const thresholds *rule) {
    if (!(pair->matched > rule->nearly_all)) return 0;
    float told = pair->headline_gains >= 1 ? pair->told : 0;
    return told + (pair->fresh == 0 ? pair->brief + pair->altered + pair->facts : 0);
}

/* Whether one site has the pair's text under two headlines, of which it speaks of neither: a notice in the place of an
 * article proves nothing. */
static bool is_wall(const similarity *pair, const thresholds *rule) {
    return pair->same_source && pair->headline < rule->another_headline && pair->grounded <= rule->ungrounded;
}

#define NOVELTY(FEATURE)                                                                                               \
    FEATURE(same_source, pair->same_source)                                                                            \
    FEATURE(headline, or_minus_one(pair->headline))                                                                    \
    FEATURE(covered, or_zero(pair->covered))                                                                           \
    FEATURE(new_sentences, or_zero(pair->new_sentences))                                                               \
    FEATURE(new_share, min_f32(or_zero(pair->new_words) / max_f32(or_zero(pair->words), 1), 1))                        \
    FEATURE(new_words, or_zero(pair->new_words))                                                                       \
    FEATURE(new_numbers, or_zero(pair->new_numbers))                                                                   \
    FEATURE(lost_words, or_zero(pair->lost_words))                                                                     \
    FEATURE(lost_numbers, or_zero(pair->lost_numbers))                                                                 \
    FEATURE(headline_gains, or_zero(pair->headline_gains))                                                             \
    FEATURE(headline_losses, or_zero(pair->headline_losses))                                                           \
    FEATURE(headline_figures, or_zero(pair->headline_figures))                                                         \
    FEATURE(new_headline, or_zero(pair->new_headline))                                                                 \
    FEATURE(grounded, or_one(pair->grounded))                                                                          \
    FEATURE(larger, larger(pair, rule))                                                                                \
    FEATURE(spread, or_zero(pair->spread))                                                                             \
    FEATURE(tokens, or_zero(pair->tokens))                                                                             \
    FEATURE(article_share, or_zero(pair->article_share))                                                               \
    FEATURE(matched, or_other(pair->matched, or_zero(pair->covered)))                                                  \
    FEATURE(fresh, or_other(pair->fresh, or_zero(pair->new_sentences)))                                                \
    FEATURE(inserted, or_zero(pair->inserted))                                                                         \
    FEATURE(altered, or_zero(pair->altered))                                                                           \
    FEATURE(facts, or_zero(pair->facts))                                                                               \
    FEATURE(altered_headline, or_zero(pair->altered_headline))                                                         \
    FEATURE(brief, or_zero(pair->brief))                                                                               \
    FEATURE(lead, or_zero(pair->lead))                                                                                 \
    FEATURE(edited, edited(pair, rule))

#define KINSHIP(FEATURE)                                                                                               \
    FEATURE(same_source, pair->same_source)                                                                            \
    FEATURE(headline, or_minus_one(pair->headline))                                                                    \
    FEATURE(body, or_minus_one(pair->body))                                                                            \
    FEATURE(containment, or_zero(pair->containment))                                                                   \
    FEATURE(swapped, pair->swapped)                                                                                    \
    FEATURE(headline_losses, or_zero(pair->headline_losses))                                                           \
    FEATURE(grounded, or_one(pair->grounded))                                                                          \
    FEATURE(series, is_series(pair, rule))                                                                             \
    FEATURE(replaced, least_exchanged(pair) / max_f32(or_zero(pair->fewer_words), 1))                                  \
    FEATURE(replaced_numbers, min_f32(or_zero(pair->lost_numbers), or_zero(pair->gained_numbers)))                     \
    FEATURE(smaller_size, (float)pair->smaller_size)                                                                   \
    FEATURE(larger, larger(pair, rule))

/* What the trees do not see. */
#define FIXED(FEATURE)                                                                                                 \
    FEATURE(bulletin, is_bulletin(pair, rule))                                                                         \
    FEATURE(corrects, pair->corrects)                                                                                  \
    FEATURE(reordered, is_reordered(pair, rule))                                                                       \
    FEATURE(version, is_new_version(pair, rule))                                                                       \
    FEATURE(flash, is_flash(pair, rule))                                                                               \
    FEATURE(notice, is_notice(pair, rule))                                                                             \
    FEATURE(unshared, shares_nothing(pair, rule))                                                                      \
    FEATURE(wall, is_wall(pair, rule))                                                                                 \
    FEATURE(filled, is_filled(pair))                                                                                   \
    FEATURE(follow_up, is_follow_up(pair, rule))                                                                       \
    FEATURE(turned, is_turned(pair, rule))

#define VALUE(name, value) (float)(value),
#define COUNTED(name, value) +1
#define NAME(name, value) #name ","

/* How many features each kind has. */
static const int64_t COUNTS[] = {0 NOVELTY(COUNTED), 0 KINSHIP(COUNTED), 0 FIXED(COUNTED)};
enum { MOST_FEATURES = 0 NOVELTY(COUNTED) };
_Static_assert(FIXED_TERMS == 0 FIXED(COUNTED), "a weight for each term");
_Static_assert(MOST_FEATURES >= 0 KINSHIP(COUNTED), "room for each kind");

static inline float least_exchanged(const similarity *pair) {
    return min_f32(or_zero(pair->lost_words), or_zero(pair->gained_words));
}

/* Write the features of one kind of a pair. */
static void write_features(const similarity *pair, const thresholds *rule, int64_t kind, float *x) {
    if (kind == OF_NOVELTY) {
        const float values[] = {NOVELTY(VALUE)};
        memcpy(x, values, sizeof values);
    } else if (kind == OF_KINSHIP) {
        const float values[] = {KINSHIP(VALUE)};
        memcpy(x, values, sizeof values);
    } else {
        const float values[] = {FIXED(VALUE)};
        memcpy(x, values, sizeof values);
    }
}

/* The log-odds of a pair with features x: the sum of the leaves. A known number of questions and no branch, so the
 * processor walks several trees at once. What is not a number is not greater than a threshold. */
static float sum_of(const trees *all, const float *x) {
    float total = 0;
    const uint8_t *features = all->features;
    const float *thresholds = all->thresholds, *leaves = all->leaves;
    for (int64_t tree = 0; tree < all->count; tree += TREES_AT_ONCE) {
        int64_t nodes[TREES_AT_ONCE] = {0};
        for (int question = 0; question < TREE_DEPTH; question++) {
            for (int k = 0; k < TREES_AT_ONCE; k++) {
                int64_t node = k * INNER_NODES + nodes[k];
                nodes[k] = 2 * nodes[k] + 1 + (x[features[node]] > thresholds[node]);
            }
        }
        for (int k = 0; k < TREES_AT_ONCE; k++) total += leaves[k * LEAVES + nodes[k] - INNER_NODES];
        features += TREES_AT_ONCE * INNER_NODES;
        thresholds += TREES_AT_ONCE * INNER_NODES;
        leaves += TREES_AT_ONCE * LEAVES;
    }
    return total;
}

float novelty_logit(const similarity *pair, const thresholds *rule) {
    if (isnan(pair->words)) return NAN;
    float x[MOST_FEATURES], terms[FIXED_TERMS], fixed = 0;
    write_features(pair, rule, OF_NOVELTY, x);
    write_features(pair, rule, OF_FIXED, terms);
    for (int k = 0; k < FIXED_TERMS; k++) fixed += rule->fixed_weights[k] * terms[k];
    return sum_of(&rule->novelty, x) + fixed;
}

float kinship_logit(const similarity *pair, const thresholds *rule) {
    float x[MOST_FEATURES];
    write_features(pair, rule, OF_KINSHIP, x);
    return sum_of(&rule->kinship, x);
}

bool is_same_by(float kinship, const similarity *pair, const thresholds *rule) {
    return kinship >= rule->same_article && !is_another_event(pair, rule) && !is_filled(pair);
}

bool is_same_article(const similarity *pair, const thresholds *rule) {
    return is_same_by(kinship_logit(pair, rule), pair, rule);
}

/* The view in which a pair is most alike, for people: 0 the body, 1 the headline, 2 none, which is the prose. */
static int64_t strongest_view(const similarity *pair, const thresholds *rule) {
    float body = max_f32(or_zero(pair->containment), or_zero(pair->body)), headline = or_zero(pair->headline);
    if (max_f32(body, headline) < rule->another_headline) return 2;
    return body >= headline ? 0 : 1;
}

/* ---- for many pairs ---- */

/* Write the names of the features of one kind, each with a comma behind it; return their length. */
CORE_API int64_t feature_names(int64_t kind, char *out, int64_t room) {
    static const char *const names[] = {NOVELTY(NAME), KINSHIP(NAME), FIXED(NAME)};
    if (kind < OF_NOVELTY || kind > OF_FIXED) return CORE_BAD_SIZE;
    int64_t size = (int64_t)strlen(names[kind]);
    if (size > room) return CORE_BAD_SIZE;
    memcpy(out, names[kind], (size_t)size);
    return size;
}

/* The features of pairs, row by row. */
CORE_API int64_t feature_columns(const similarity *pairs, int64_t count, const thresholds *rule, int64_t kind,
                                 float *out) {
    for (int64_t p = 0; p < count; p++) write_features(pairs + p, rule, kind, out + p * COUNTS[kind]);
    return count;
}

/* `strongest_view` of pairs. */
CORE_API int64_t strongest_views(const similarity *pairs, int64_t count, const thresholds *rule, uint8_t *out) {
    for (int64_t p = 0; p < count; p++) out[p] = (uint8_t)strongest_view(pairs + p, rule);
    return count;
}

CORE_API int64_t judge_pairs(const similarity *pairs, int64_t count, const thresholds *rule, judged *out) {
    for (int64_t p = 0; p < count; p++) {
        const similarity *pair = pairs + p;
        judged one = {NAN, NAN, .is_repeat = is_repeat(pair, rule)};
        if (rule->is_plain) {
            one.is_same = is_alike(pair, rule);
            one.is_held = one.is_repeat || one.is_same;
        } else {
            one.logit = novelty_logit(pair, rule);
            one.kinship = kinship_logit(pair, rule);
            one.is_same = is_same_by(one.kinship, pair, rule);
            one.is_held = one.is_repeat || one.logit < rule->hold_below;
        }
        out[p] = one;
    }
    return count;
}

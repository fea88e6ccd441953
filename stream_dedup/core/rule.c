/* The rule for one pair: features, boosted trees, log-odds. rule.py has the meaning of all names, and every number.
 *
 * A feature is one line here, and one entry of the same name in rule.py, which compares the names when it is imported.
 */
#include "core.h"

#include <math.h>

static inline float or_zero(float share) { return isnan(share) ? 0 : share; }
static inline float or_one(float share) { return isnan(share) ? 1 : share; }
static inline float or_minus_one(float share) { return isnan(share) ? -1 : share; }
static inline float larger(const similarity *s, const thresholds *t) {
    return min_f32(max_f32(s->log_size_ratio, t->least_ratio), t->most_ratio);
}

bool is_repeat(const similarity *s, const thresholds *t) {
    bool another_day = s->same_source && s->smaller_size < t->shortest && s->apart > t->next_day;
    return s->same_text && !another_day;
}

bool is_another_event(const similarity *s, const thresholds *t) { return s->same_text && !is_repeat(s, t); }

bool is_alike(const similarity *s, const thresholds *t) {
    return isnan(s->distance) ? s->body >= t->body : s->within_hamming;
}

/* Whether the new item of a pair reports on another day in the form of the known one. */
static bool is_bulletin(const similarity *s, const thresholds *t) {
    if (s->apart < t->bulletin_hours) return false;
    if (s->same_text) return is_another_event(s, t);
    bool has_figures = s->numbers + s->headline_numbers >= t->figures * max_f32(s->words, t->fewest_words);
    if (has_figures && s->new_numbers + s->new_headline_numbers >= t->one_figure) return true;
    bool is_reworded = s->covered < t->same_wording && s->tokens < t->form_tokens;
    if (is_reworded && s->apart > t->next_day) return true;
    bool has_form = s->same_source && s->same_form;
    return has_form && s->new_numbers_anywhere + s->new_headline_numbers >= t->one_figure;
}

/* Whether the new item of a pair is another day's item of a series: a bulletin, or the same headline over a text of its
 * own, as the name of a section ("Latest news"). */
static bool is_series(const similarity *s, const thresholds *t) {
    bool is_section = s->same_source && s->headline >= t->same_headline && s->containment < t->another_text;
    return is_bulletin(s, t) || (is_section && s->apart >= t->bulletin_hours);
}

/* Whether a few words at most are new or lost: more are boilerplate, in which figures come and go. */
static bool has_others(const similarity *s, const thresholds *t) {
    return s->new_words > t->few_new || s->lost_words > t->few_lost;
}

static bool is_reordered(const similarity *s, const thresholds *t) {
    return s->other_order && s->covered < t->same_order && !has_others(s, t);
}

/* Whether it is a new version of its id, with a new sentence or a few new words. */
static bool is_new_version(const similarity *s, const thresholds *t) {
    return s->same_id && (s->new_sentences > 0 || s->new_words >= t->new_to_version);
}

/* Whether the new item has a fact that is new beyond doubt, however small it is beside the rest: a whole sentence, or a
 * figure in the place of another one. */
static bool has_fact(const similarity *s, const thresholds *t) {
    bool is_changed = s->new_numbers >= t->one_figure && s->lost_numbers >= 1;
    bool is_alone = s->new_words <= t->few_new && s->lost_words <= t->few_lost;
    return s->new_sentences > 0 || (is_changed && is_alone);
}

#define NOVELTY(FEATURE)                                                                                               \
    FEATURE(same_source, s->same_source)                                                                               \
    FEATURE(headline, or_minus_one(s->headline))                                                                       \
    FEATURE(covered, or_zero(s->covered))                                                                              \
    FEATURE(new_sentences, or_zero(s->new_sentences))                                                                  \
    FEATURE(new_share, min_f32(or_zero(s->new_words) / max_f32(or_zero(s->words), 1), 1))                              \
    FEATURE(new_words, or_zero(s->new_words))                                                                          \
    FEATURE(new_numbers, or_zero(s->new_numbers))                                                                      \
    FEATURE(lost_words, or_zero(s->lost_words))                                                                        \
    FEATURE(lost_numbers, or_zero(s->lost_numbers))                                                                    \
    FEATURE(headline_gains, or_zero(s->headline_gains))                                                                \
    FEATURE(headline_losses, or_zero(s->headline_losses))                                                              \
    FEATURE(headline_figures, or_zero(s->headline_figures))                                                            \
    FEATURE(new_headline, or_zero(s->new_headline))                                                                    \
    FEATURE(grounded, or_one(s->grounded))                                                                             \
    FEATURE(larger, larger(s, t))                                                                                      \
    FEATURE(spread, or_zero(s->spread))                                                                                \
    FEATURE(tokens, or_zero(s->tokens))                                                                                \
    FEATURE(article_share, or_zero(s->article_share))

#define KINSHIP(FEATURE)                                                                                               \
    FEATURE(same_source, s->same_source)                                                                               \
    FEATURE(headline, or_minus_one(s->headline))                                                                       \
    FEATURE(body, or_minus_one(s->body))                                                                               \
    FEATURE(containment, or_zero(s->containment))                                                                      \
    FEATURE(swapped, s->swapped)                                                                                       \
    FEATURE(headline_losses, or_zero(s->headline_losses))                                                              \
    FEATURE(grounded, or_one(s->grounded))                                                                             \
    FEATURE(series, is_series(s, t))                                                                                   \
    FEATURE(replaced, least_exchanged(s) / max_f32(or_zero(s->fewer_words), 1))                                        \
    FEATURE(replaced_numbers, min_f32(or_zero(s->lost_numbers), or_zero(s->gained_numbers)))                           \
    FEATURE(smaller_size, (float)s->smaller_size)                                                                      \
    FEATURE(larger, larger(s, t))

/* What the trees are not asked. */
#define FIXED(FEATURE)                                                                                                 \
    FEATURE(bulletin, is_bulletin(s, t))                                                                               \
    FEATURE(corrects, s->corrects)                                                                                     \
    FEATURE(reordered, is_reordered(s, t))                                                                             \
    FEATURE(version, is_new_version(s, t))

#define VALUE(name, value) (float)(value),
#define COUNTED(name, value) +1
#define NAME(name, value) #name ","

enum { NOVELTY_FEATURES = 0 NOVELTY(COUNTED), KINSHIP_FEATURES = 0 KINSHIP(COUNTED) };
_Static_assert(FIXED_TERMS == 0 FIXED(COUNTED), "a weight for each term");

static inline float least_exchanged(const similarity *s) {
    return min_f32(or_zero(s->lost_words), or_zero(s->gained_words));
}

static void novelty_features(const similarity *s, const thresholds *t, float *x) {
    const float values[NOVELTY_FEATURES] = {NOVELTY(VALUE)};
    memcpy(x, values, sizeof values);
}

static void kinship_features(const similarity *s, const thresholds *t, float *x) {
    const float values[KINSHIP_FEATURES] = {KINSHIP(VALUE)};
    memcpy(x, values, sizeof values);
}

static void fixed_features(const similarity *s, const thresholds *t, float *x) {
    const float values[FIXED_TERMS] = {FIXED(VALUE)};
    memcpy(x, values, sizeof values);
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

float novelty_logit(const similarity *s, const thresholds *t) {
    if (isnan(s->words)) return NAN;
    float x[NOVELTY_FEATURES], terms[FIXED_TERMS], of_terms = 0;
    novelty_features(s, t, x);
    fixed_features(s, t, terms);
    for (int k = 0; k < FIXED_TERMS; k++) of_terms += t->fixed_weights[k] * terms[k];
    float log_odds = sum_of(&t->novelty, x) + of_terms;
    return has_fact(s, t) ? max_f32(log_odds, t->fact) : log_odds;
}

float kinship_logit(const similarity *s, const thresholds *t) {
    float x[KINSHIP_FEATURES];
    kinship_features(s, t, x);
    return sum_of(&t->kinship, x);
}

bool is_same_article(const similarity *s, const thresholds *t) {
    return kinship_logit(s, t) >= t->same_article && !is_another_event(s, t);
}

/* The view in which a pair is most alike, for people: 0 the body, 1 the headline, 2 none, which is the prose. */
static int64_t strongest_view(const similarity *s, const thresholds *t) {
    float body = max_f32(or_zero(s->containment), or_zero(s->body)), headline = or_zero(s->headline);
    if (max_f32(body, headline) < t->another_headline) return 2;
    return body >= headline ? 0 : 1;
}

/* ---- for many pairs ---- */

/* Write the names of features, each with a comma behind it; return their length. */
CORE_API int64_t feature_names(int64_t of, char *out, int64_t room) {
    static const char *const names[] = {NOVELTY(NAME), KINSHIP(NAME), FIXED(NAME)};
    if (of < OF_NOVELTY || of > OF_FIXED) return CORE_BAD_SIZE;
    int64_t size = (int64_t)strlen(names[of]);
    if (size > room) return CORE_BAD_SIZE;
    memcpy(out, names[of], (size_t)size);
    return size;
}

/* The features of n pairs, row by row. */
CORE_API int64_t feature_columns(const similarity *similar, int64_t n, const thresholds *t, int64_t of, float *out) {
    for (int64_t p = 0; p < n; p++) {
        if (of == OF_NOVELTY) novelty_features(similar + p, t, out + p * NOVELTY_FEATURES);
        else if (of == OF_KINSHIP) kinship_features(similar + p, t, out + p * KINSHIP_FEATURES);
        else fixed_features(similar + p, t, out + p * FIXED_TERMS);
    }
    return n;
}

/* `strongest_view` of n pairs. */
CORE_API int64_t strongest_views(const similarity *similar, int64_t n, const thresholds *t, uint8_t *out) {
    for (int64_t p = 0; p < n; p++) out[p] = (uint8_t)strongest_view(similar + p, t);
    return n;
}

CORE_API int64_t judge_pairs(const similarity *similar, int64_t n, const thresholds *t, judged *out) {
    for (int64_t p = 0; p < n; p++) {
        const similarity *s = similar + p;
        judged one = {NAN, NAN, .is_repeat = is_repeat(s, t), .has_fact = has_fact(s, t)};
        if (t->is_plain) {
            one.is_same = is_alike(s, t);
            one.is_held = one.is_repeat || one.is_same;
        } else {
            one.logit = novelty_logit(s, t);
            one.kinship = kinship_logit(s, t);
            one.is_same = one.kinship >= t->same_article && !is_another_event(s, t);
            one.is_held = one.is_repeat || one.logit < t->hold_below;
        }
        out[p] = one;
    }
    return n;
}

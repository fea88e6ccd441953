/* The rule for one pair: features, boosted trees, log-odds; dedup/rule.py explains the two models.
 *
 * A feature is one line of NOVELTY, KINSHIP or FIXED below. Python reads these tables when it is imported, and refuses
 * trees that were fitted to others. Every constant here was fitted to pairs that people read, and to articles that were
 * edited on purpose; the weights of FIXED were chosen.
 *
 * A condition with an unknown similarity (NaN) is false, on purpose: see similarity.h.
 */
#include "core.h"

#include <math.h>

/* Headlines: readers call them the same from this Jaccard on, and of one site different below the other. */
static const float SAME_HEADLINE = 0.8f, ANOTHER_HEADLINE = 0.5f;
/* A text that one site publishes again this many hours later is the next bulletin; copies come within 13 hours. A
 * bulletin comes every day, perhaps in the evening instead of the morning. */
static const float NEXT_DAY = 16, BULLETIN_HOURS = 12;
/* Shingles of a text that its source may send again as another day's, in the same words: a warning of frost has 45. */
static const float SHORTEST = 60;
/* Shingles of a notice, in which one source puts the news into a few words: a report of a quake in Japanese has 148;
 * the state of a service, 68. In longer teasers of one site the last words come and go. */
static const float NOTICE = 160, SHORT_NOTICE = 100, SAME_BODY = 0.99f;
/* Another row or sentence adds less to the log ratio of sizes than a longer teaser; of four words one is replaced. */
static const float SAME_SIZE = 0.3f, ONE_WORD = 0.59f;
/* Log ratios of sizes beyond these say no more. */
static const float LEAST_RATIO = -1.5f, MOST_RATIO = 2;
/* Share of figures among the words of a bulletin; in an article of eight words or fewer, any figure counts. */
static const float FIGURES = 0.05f, FEWEST_WORDS = 8;
/* Words of an article, and shingles of the shorter text: fewer are a headline, or a line below it. */
static const float OWN_WORDS = 8;
/* Share of a headline that its text mentions, at most, where the text is a notice. */
static const float UNGROUNDED = 0.2f;
/* Two texts are two articles if neither contains this share of the other. */
static const float ANOTHER_TEXT = 0.4f;
/* A forecast of another day has no figures, but it is worded differently, although all its words are known. Of the
 * labelled pairs beyond both limits, 62 have something new and 15 do not. */
static const float SAME_WORDING = 0.75f, FORM_TOKENS = 300;
/* Words that a new version adds. An added sentence of known words has 4.5 or more in 100 updates of the feed of the
 * demo; "Read more here", a changed figure, and "twenty" for "20" have three. */
static const float NEW_TO_VERSION = 4;
/* "A beats B" and "B beats A": headline and text have the same words in another order. A copy under a headline that is
 * reworded in its own words has the same text; without a diff .92 or more of it is covered. */
static const float SAME_ORDER = 0.93f;
/* A figure has changed, and nothing else. More new or lost words are boilerplate, in which figures come and go. */
static const float FEW_NEW = 4, FEW_LOST = 8, FEW_GAINED = 2, ONE_FIGURE = 0.9f;
/* Share of a text that is known word by word, beyond which a replaced word is an edit of this text. */
static const float NEARLY_ALL = 0.9f;
/* A follow-up has its news in headline and lead, and the old text behind them: at most this difference of the log
 * sizes, and these numbers of words of the headline and of new words in the rest. */
static const float SAME_LENGTH = 0.12f, FEW_SAID = 2, MORE_SAID = 3, SMALL_REST = 6, SOME_REST = 15;
/* Where the rest is the old one word by word, so many new words of the lead are enough, or fewer with one of the
 * headline. Of the labelled pairs 21 have something new, 18 do not. */
static const float SAME_REST = 1, LEAD_WORDS = 5, FEW_LEAD_WORDS = 2;
/* Words of a sentence that says what the headline adds to the known one. */
static const float SENTENCE_WORDS = 3;
/* Another first sentence under the same headline has so many new words, at least this share of them, and so few are new
 * in the rest. A summary or the dateline of another site has fewer: of the labelled pairs with fewer 3 have something new
 * and 70 do not, with as many 1 and 15. If none is lost, it was put in front, and needs more. */
static const float FEWEST_NEW = 3, NEW_SHARE = 0.25f, FEW_IN_REST = 3, PUT_IN_FRONT = 6, FRONT_SHARE = 0.4f;
/* One edit: words of a clause, and the places of one, and of a word or sentence that was replaced. So many
 * words are lost for each new one: in a copy that was cut many more are, and where a footer was put in hardly any. */
static const float CLAUSE_WORDS = 3, ONE_PLACE = 1, TWO_PLACES = 2, LEAST_EXCHANGED = 0.25f, MOST_EXCHANGED = 4;
/* "Northbound" for "southbound": at most so many new words. Copies under headlines less alike than this are many. */
static const float FEW_UNMATCHED = 4, ALIKE_HEADLINE = 0.61f, HALF = -0.7f;

/* What a feature is where its similarity is unknown. */
static inline float or_other(float share, float other) { return isnan(share) ? other : share; }
static inline float or_zero(float share) { return or_other(share, 0); }
static inline float larger(const similarity *pair) {
    return min_f32(max_f32(pair->log_size_ratio, LEAST_RATIO), MOST_RATIO);
}

bool is_repeat(const similarity *pair) {
    bool another_day = pair->same_source && pair->smaller_size < SHORTEST && pair->apart > NEXT_DAY;
    return pair->same_text && !another_day;
}

/* Whether a pair has the same words, and yet reports two events. */
static bool is_another_event(const similarity *pair) { return pair->same_text && !is_repeat(pair); }

bool is_alike(const similarity *pair, const thresholds *rule) {
    return isnan(pair->distance) ? pair->body >= rule->body : pair->within_hamming;
}

/* Whether the new item of a pair reports on another day in the form of the known one. */
static bool is_bulletin(const similarity *pair) {
    if (pair->apart < BULLETIN_HOURS) return false;
    if (pair->same_text) return is_another_event(pair);
    float least = FIGURES * max_f32(pair->words, FEWEST_WORDS);
    bool has_figures = pair->numbers + pair->headline_numbers >= least;
    if (has_figures && pair->new_numbers + pair->new_headline_numbers >= ONE_FIGURE) return true;
    bool is_reworded = pair->covered < SAME_WORDING && pair->tokens < FORM_TOKENS;
    if (is_reworded && pair->apart > NEXT_DAY) return true;
    bool has_form = pair->same_source && pair->same_form;
    return has_form && pair->new_numbers_anywhere + pair->new_headline_numbers >= ONE_FIGURE;
}

/* Whether the new item of a pair is another day's item of a series: a bulletin, or the same headline over a text of its
 * own, as the name of a section ("Latest news"). */
static bool is_series(const similarity *pair) {
    bool has_headline = pair->same_source && pair->headline >= SAME_HEADLINE;
    bool is_section = has_headline && pair->containment < ANOTHER_TEXT;
    return is_bulletin(pair) || (is_section && pair->apart >= BULLETIN_HOURS);
}

/* Whether more than a few words are new or lost: these are boilerplate, in which figures come and go. */
static bool has_others(const similarity *pair) {
    return pair->new_words > FEW_NEW || pair->lost_words > FEW_LOST;
}

static bool is_reordered(const similarity *pair) {
    bool is_other_text = isnan(pair->unmatched) ? pair->covered < SAME_ORDER : pair->unmatched >= 1;
    return pair->other_order && is_other_text && !has_others(pair);
}

/* Whether the new item is a headline alone that says something else: a figure that the known item lacks; and if that is
 * a headline alone, too, any new word, or the same figures in other places. */
static bool is_flash(const similarity *pair) {
    if (pair->smaller_size > 0 || pair->log_size_ratio > 0) return false; /* the new item has a text */
    if (pair->new_headline_numbers >= ONE_FIGURE) return true;
    bool has_swapped = pair->headline >= 1 && pair->same_form && !pair->same_text;
    return pair->log_size_ratio == 0 && (pair->new_headline >= 1 || has_swapped);
}

/* Whether it is another notice in the words of its source: a short text with a figure in the place of another one; or a
 * shorter one with another number or word in the headline alone, or with words that are added and replace none. */
static bool is_notice(const similarity *pair) {
    float size = (float)pair->smaller_size;
    if (!pair->same_source || size == 0 || size >= NOTICE) return false;
    if (fabsf(pair->log_size_ratio) > SAME_SIZE) return false;
    bool is_same_headline = pair->headline >= SAME_HEADLINE;
    bool is_replaced = pair->new_numbers >= ONE_FIGURE && pair->lost_numbers >= 1;
    if (is_same_headline && is_replaced) return true;
    if (size >= SHORT_NOTICE) return false;
    if (pair->same_form && pair->new_headline_numbers >= ONE_FIGURE) return true;
    if (is_same_headline) return pair->gained_words >= FEW_GAINED && pair->lost_words < 1;
    return pair->headline >= ONE_WORD && pair->new_headline <= 1 && pair->body >= SAME_BODY;
}

/* Whether it is a new version of its id: with a new sentence, a few new words, or a word or figure replaced. */
static bool is_new_version(const similarity *pair) {
    bool is_changed = pair->facts + pair->altered + pair->brief > 0;
    return pair->same_id && (is_changed || pair->new_sentences > 0 || pair->new_words >= NEW_TO_VERSION);
}

/* Whether an item with an article of its own has no run of words in common with a text; menus are no article. */
static bool shares_nothing(const similarity *pair) {
    if (!((float)pair->smaller_size >= OWN_WORDS && pair->tokens >= OWN_WORDS)) return false;
    return isnan(pair->matched) ? pair->covered <= 0 && pair->body <= 0 : pair->matched <= 0;
}

/* Whether one form is filled in otherwise: a word of the headline and a figure have others in their places in the text. */
static bool is_filled(const similarity *pair) { return pair->facts >= 1 && pair->altered_headline >= 1; }

/* Whether the text is as long as the known one. */
static bool is_as_long(const similarity *pair) { return fabsf(pair->log_size_ratio) < SAME_LENGTH; }

/* Whether the first sentence says something else, under the same headline and over the same text. */
static bool has_other_lead(const similarity *pair) {
    if (!(pair->rest <= FEW_IN_REST && pair->lead > FEWEST_NEW)) return false;
    if (pair->lost_words < 1) return pair->new_words >= max_f32(PUT_IN_FRONT, FRONT_SHARE * pair->lead);
    return pair->new_words >= max_f32(FEWEST_NEW, NEW_SHARE * pair->lead);
}

/* Whether the story goes on over the same text: in another first sentence; under another headline it says that one's new
 * words. */
static bool is_follow_up(const similarity *pair) {
    if (!is_as_long(pair)) return false;
    if (!(pair->headline < SAME_HEADLINE)) return pair->headline >= SAME_HEADLINE && has_other_lead(pair);
    bool is_lead = pair->lead >= LEAD_WORDS || (pair->said >= 1 && pair->lead >= FEW_LEAD_WORDS);
    if (is_lead && pair->new_headline >= 1 && pair->rest <= SAME_REST) return true;
    if (!(pair->headline < ALIKE_HEADLINE)) return false;
    bool is_said = pair->said >= FEW_SAID && pair->rest <= SMALL_REST;
    return is_said || (pair->said >= MORE_SAID && pair->rest <= SOME_REST);
}

/* Whether headline and text of a notice are the known ones with a few words more in the headline, and a sentence more in
 * the text: "Cancelled: ...", and why. Long articles have a footer more. */
static bool is_continued(const similarity *pair) {
    if (!(pair->headline >= ONE_WORD && pair->headline < 1) || pair->headline_losses > 0) return false;
    bool is_longer = pair->log_size_ratio > 0 && pair->lost_words < 1 && (float)pair->smaller_size < NOTICE;
    return is_longer && pair->new_headline >= 1 && pair->fresh + pair->brief >= SENTENCE_WORDS;
}

/* Whether a word of the headline has another in its place in the text, and hardly anything else is new. The text may be
 * cut; a short one may be a form whose headline has hardly another word. */
static bool is_turned(const similarity *pair) {
    bool is_cut = pair->log_size_ratio < SAME_LENGTH && pair->log_size_ratio > HALF;
    bool is_form = is_as_long(pair) && (float)pair->smaller_size < SHORT_NOTICE;
    bool is_same = (pair->headline >= ANOTHER_HEADLINE && is_cut) || is_form;
    return is_same && pair->altered_headline >= 1 && pair->unmatched <= FEW_UNMATCHED;
}

/* Whether an editor has changed one thing, and nearly all else is known word by word: a clause was put in or rewritten;
 * or under the same headline a sentence, or words, in the place of others. */
static bool is_edit(const similarity *pair) {
    if (!(pair->matched > NEARLY_ALL)) return false;
    bool has_no_sentence = pair->fresh <= 0;
    if (has_no_sentence && pair->rewritten >= CLAUSE_WORDS && pair->places <= ONE_PLACE) return true;
    if (!(pair->headline >= SAME_HEADLINE) || !is_as_long(pair) || pair->places > TWO_PLACES) return false;
    if (has_no_sentence && pair->altered >= 1 && pair->unmatched <= pair->altered) return true;
    float new = pair->new_words, lost = pair->lost_words;
    bool is_exchanged = lost >= LEAST_EXCHANGED * new && lost <= MOST_EXCHANGED * new;
    return is_exchanged && pair->rewritten >= CLAUSE_WORDS && pair->new_words >= FEWEST_NEW;
}

/* Where nearly all else is known: words that were replaced, or put in as short sentences, if no longer one is new; and
 * words of the headline that a new sentence says, and the known item nowhere. */
static float edited(const similarity *pair) {
    if (!(pair->matched > NEARLY_ALL)) return 0;
    float told = pair->headline_gains >= 1 ? pair->told : 0;
    return told + (pair->fresh == 0 ? pair->brief + pair->altered + pair->facts : 0);
}

/* Whether one site has the pair's text under two headlines, of which it speaks of neither: a notice in the place of an
 * article proves nothing. */
static bool is_wall(const similarity *pair) {
    return pair->same_source && pair->headline < ANOTHER_HEADLINE && pair->grounded <= UNGROUNDED;
}

static inline float least_exchanged(const similarity *pair) {
    return min_f32(or_zero(pair->lost_words), or_zero(pair->gained_words));
}

/* FEATURE(name, direction, value, meaning for people). direction: +1 if more of it never lowers the answer, -1 if it
 * never raises it, 0 if it may do both; the trees are fitted so. A feature that is a field of `similarity`, or that the
 * evidence shows, has its name. `python -m tests.lab.labels.fit FOLDER` fits the trees again, and measures what each
 * feature contributes. A changed feature, tree or weight must raise RULE_VERSION in dedup/verdict.py, which every
 * evidence contains. */

/* Is anything new? */
#define NOVELTY(FEATURE)                                                                                               \
    FEATURE(same_source, 0, pair->same_source, "one source, which seldom tells a story twice")                         \
    FEATURE(headline, 0, or_other(pair->headline, -1), "how similar the headlines are")                                \
    FEATURE(covered, -1, or_zero(pair->covered),                                                                       \
            "share of its article that the original holds, as far as that is certain")                                 \
    FEATURE(new_sentences, +1, or_zero(pair->new_sentences), "words in sentences of mostly new words")                 \
    FEATURE(new_share, +1, min_f32(or_zero(pair->new_words) / max_f32(or_zero(pair->words), 1), 1),                    \
            "share of its words that the original lacks")                                                              \
    FEATURE(new_words, +1, or_zero(pair->new_words), "words that the original lacks")                                  \
    FEATURE(new_numbers, +1, or_zero(pair->new_numbers), "figures that the original lacks")                            \
    FEATURE(lost_words, 0, or_zero(pair->lost_words), "words of the original that it lacks")                           \
    FEATURE(lost_numbers, +1, or_zero(pair->lost_numbers), "figures of the original that it lacks")                    \
    FEATURE(headline_gains, +1, or_zero(pair->headline_gains),                                                         \
            "words of its headline that its text has and the original lacks")                                          \
    FEATURE(headline_losses, +1, or_zero(pair->headline_losses), "words of the original's headline that it lacks")     \
    FEATURE(headline_figures, +1, or_zero(pair->headline_figures),                                                     \
            "figures of its headline that its text has and the original lacks")                                        \
    FEATURE(new_headline, +1, or_zero(pair->new_headline), "words of its headline that the original lacks")            \
    FEATURE(grounded, -1, or_other(pair->grounded, 1), "how much of their headlines the texts mention")                \
    FEATURE(larger, +1, larger(pair), "how much longer its page is")                                                   \
    FEATURE(spread, 0, or_zero(pair->spread), "share of its sentences that have a new word")                           \
    FEATURE(tokens, 0, or_zero(pair->tokens), "words of its article")                                                  \
    FEATURE(article_share, 0, or_zero(pair->article_share), "share of its page that is article")                       \
    FEATURE(matched, -1, or_other(pair->matched, or_zero(pair->covered)),                                              \
            "share of its sentences that the original has word by word")                                               \
    FEATURE(fresh, +1, or_other(pair->fresh, or_zero(pair->new_sentences)),                                            \
            "words in sentences that the original has not as they stand")                                              \
    FEATURE(inserted, +1, or_zero(pair->inserted), "words in sentences that were put between known ones")              \
    FEATURE(altered, +1, or_zero(pair->altered), "words in the place of others, in sentences that the original has")   \
    FEATURE(facts, +1, or_zero(pair->facts),                                                                           \
            "figures in the place of others, and verbs that are denied or no more, in such sentences")                 \
    FEATURE(altered_headline, +1, or_zero(pair->altered_headline),                                                     \
            "such replaced words that its headline has and the original's lacks")                                      \
    FEATURE(brief, +1, or_zero(pair->brief),                                                                           \
            "words of short new sentences behind known ones, and of new rows of a list")                               \
    FEATURE(lead, +1, or_zero(pair->lead), "new words in its first sentence")                                          \
    FEATURE(edited, +1, edited(pair),                                                                                  \
            "words that were replaced, put in, or said by its headline, where all else is known")                      \
    FEATURE(places, 0, or_zero(pair->places), "places of its text that have other words")

/* Is it the same article? All but `series` needs signatures alone. */
#define KINSHIP(FEATURE)                                                                                               \
    FEATURE(same_source, 0, pair->same_source, "one source")                                                           \
    FEATURE(headline, +1, or_other(pair->headline, -1), "how similar the headlines are")                               \
    FEATURE(body, +1, or_other(pair->body, -1), "how similar the bodies are")                                          \
    FEATURE(containment, +1, or_zero(pair->containment), "share of the shorter text that the other holds")             \
    FEATURE(swapped, -1, pair->swapped, "words swapped in headline and text")                                          \
    FEATURE(headline_losses, -1, or_zero(pair->headline_losses), "words of the original's headline that it lacks")     \
    FEATURE(grounded, +1, or_other(pair->grounded, 1), "how much of their headlines the texts mention")                \
    FEATURE(series, -1, is_series(pair), "one source, and another day's item of a series")                             \
    FEATURE(replaced, -1, least_exchanged(pair) / max_f32(or_zero(pair->fewer_words), 1),                              \
            "share of the words that replace others")                                                                  \
    FEATURE(replaced_numbers, -1, min_f32(or_zero(pair->lost_numbers), or_zero(pair->gained_numbers)),                 \
            "figures that replace others")                                                                             \
    FEATURE(smaller_size, 0, (float)pair->smaller_size, "length of the shorter text")                                  \
    FEATURE(larger, 0, larger(pair), "how much longer its page is")

/* FEATURE(name, weight, value, meaning for people): terms of novelty with fixed weights, log-odds, which the trees do
 * not use. Labelled pairs hardly show them.
 *
 * - bulletin: a list of another day is news to those who need it, although readers call many such pairs the same.
 * - corrects: readers of a wrong number must see the right one. No labelled pair is a correction, and two articles that
 *   differ in one number can have log-odds down to -6.
 * - reordered: in four of five real pairs of articles whose two names change places, this is news. No labelled pair is
 *   one.
 * - version: an editor who adds a sentence to a published article does so for its readers. No labelled pair has one id,
 *   and without this nine of ten updates of the feed of the demo, each of one added sentence, would be held back.
 * - unshared: a headline alone proves nothing if both have texts. Of the labelled pairs 71 have something new, 8 not.
 * - wall: a cookie notice or a paywall stands under all headlines of a site, so the headlines decide. Of the labelled
 *   pairs 29 have something new, 11 do not.
 * - filled: an obituary, a road closed, a result. Of the labelled pairs 134 have something new, 22 do not.
 * - follow_up: a story goes on in a new lead over old text. Of the labelled pairs 65 have something new, 26 do not.
 * - continued: an event is cancelled. Of the labelled pairs 5 have something new, and none has not.
 * - turned: a road northbound, another country. Of the labelled pairs 14 have something new, 11 do not.
 * - edit: a cause, a speaker, an outcome. Of the labelled pairs hardly one has something new, but they are few, and stand
 *   for .005 of the items without; of 644 edits that people wrote it finds every other one that the trees hold back. */
#define FIXED(FEATURE)                                                                                                 \
    FEATURE(bulletin, 6, is_bulletin(pair), "another day's bulletin: figures, a table or a form")                      \
    FEATURE(corrects, 10, pair->corrects, "it says that it corrects an earlier one")                                   \
    FEATURE(reordered, 8, is_reordered(pair), "names that have changed places in headline and text")                   \
    FEATURE(version, 3, is_new_version(pair), "a new version of its id, with a new sentence or a few new words")       \
    FEATURE(flash, 8, is_flash(pair), "a headline alone with another figure or word")                                  \
    FEATURE(notice, 8, is_notice(pair),                                                                                \
            "another notice of its source: another place or number in the headline, or a few words more")              \
    FEATURE(unshared, 8, shares_nothing(pair), "no run of words in common with the original")                          \
    FEATURE(wall, 8, is_wall(pair), "a text of the site that speaks of neither headline")                              \
    FEATURE(filled, 8, is_filled(pair),                                                                                \
            "another word of the headline and another figure in the same text, as in a form")                          \
    FEATURE(follow_up, 8, is_follow_up(pair), "another first sentence over the same text")                             \
    FEATURE(continued, 8, is_continued(pair),                                                                          \
            "a few words more in the headline and a sentence more in the text, and nothing less")                      \
    FEATURE(turned, 8, is_turned(pair), "another word of the headline in its place in the same text")                  \
    FEATURE(edit, 4, is_edit(pair), "one word, clause or sentence put in or in the place of another, and all else known")

#define VALUE(name, effect, value, meaning) (float)(value),
#define WEIGHT(name, effect, value, meaning) effect,
#define COUNTED(name, effect, value, meaning) +1
#define ROW(name, effect, value, meaning) #name "\t" #effect "\t" meaning "\n"

/* For Python: name, direction or weight, and meaning of each feature. */
CORE_API const char *const novelty_features = NOVELTY(ROW), *const kinship_features = KINSHIP(ROW);
CORE_API const char *const fixed_features = FIXED(ROW);

static const float FIXED_WEIGHTS[] = {FIXED(WEIGHT)};
/* How many features each kind has. */
static const int64_t COUNTS[] = {0 NOVELTY(COUNTED), 0 KINSHIP(COUNTED), 0 FIXED(COUNTED)};
enum { MOST_FEATURES = 0 NOVELTY(COUNTED), FIXED_TERMS = 0 FIXED(COUNTED) };
_Static_assert(MOST_FEATURES >= 0 KINSHIP(COUNTED), "room for each kind");

/* Write the features of one kind of a pair. */
static void write_features(const similarity *pair, int64_t kind, float *x) {
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
 * processor walks several trees at once. */
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
    write_features(pair, OF_NOVELTY, x);
    write_features(pair, OF_FIXED, terms);
    for (int k = 0; k < FIXED_TERMS; k++) fixed += FIXED_WEIGHTS[k] * terms[k];
    return sum_of(&rule->novelty, x) + fixed;
}

float kinship_logit(const similarity *pair, const thresholds *rule) {
    float x[MOST_FEATURES];
    write_features(pair, OF_KINSHIP, x);
    return sum_of(&rule->kinship, x);
}

bool is_same_by(float kinship, const similarity *pair, const thresholds *rule) {
    return kinship >= rule->same_article && !is_another_event(pair) && !is_filled(pair);
}

bool is_same_article(const similarity *pair, const thresholds *rule) {
    return is_same_by(kinship_logit(pair, rule), pair, rule);
}

/* The view in which a pair is most alike, for people: 0 the body, 1 the headline, 2 none, which is the prose. */
static int64_t strongest_view(const similarity *pair) {
    float body = max_f32(or_zero(pair->containment), or_zero(pair->body)), headline = or_zero(pair->headline);
    if (max_f32(body, headline) < ANOTHER_HEADLINE) return 2;
    return body >= headline ? 0 : 1;
}

/* ---- for many pairs ---- */

/* The features of pairs, row by row. */
CORE_API int64_t feature_columns(const similarity *pairs, int64_t count, int64_t kind, float *out) {
    for (int64_t p = 0; p < count; p++) write_features(pairs + p, kind, out + p * COUNTS[kind]);
    return count;
}

/* `strongest_view` of pairs. */
CORE_API int64_t strongest_views(const similarity *pairs, int64_t count, uint8_t *out) {
    for (int64_t p = 0; p < count; p++) out[p] = (uint8_t)strongest_view(pairs + p);
    return count;
}

CORE_API int64_t judge_pairs(const similarity *pairs, int64_t count, const thresholds *rule, judged *out) {
    for (int64_t p = 0; p < count; p++) {
        const similarity *pair = pairs + p;
        judged one = {NAN, NAN, .is_repeat = is_repeat(pair)};
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

/* Measure the similarities of a new item and known ones, from their signatures; see similarity.h.
 *
 * MinHash bodies are compared by sketches or whole sets, SimHashes by their Hamming distance, headlines by their
 * smallest features. Sources: one-permutation estimator with empty bins, Li, Owen, Zhang 2012; correction for b-bit
 * collisions, Li, Koenig 2010; containment from Jaccard and sizes; the angle of a SimHash, Charikar 2002.
 */
#include "core.h"

#include <math.h>

static const double PI = 3.141592653589793;
/* Shingles added to both sizes in their ratio, so that two nearly empty pages count as equally long. */
enum { SIZE_OFFSET = 5 };
enum { PAIRS_AT_ONCE = 64 };
static const float SAME_WORDS = 0.999f;
/* Probability that two different hashes have the same nibble: it is 1 to 15. */
static const double CHANCE_EQUAL = 1.0 / 15.0;
static const double DOUBT = 2.0; /* standard deviations of the number of bins that are equal by chance */
/* Words of a correction's note that the known item lacks. A copy of the corrected item has the note, too: it lacks
 * none. */
static const float NOTE = 3;

static inline uint32_t body_size_of(const uint8_t *signature) {
    uint32_t size;
    memcpy(&size, signature + BODY_SIZE_AT, sizeof size);
    return size;
}

static inline int64_t headline_size_of(const uint8_t *signature) {
    uint16_t size;
    memcpy(&size, signature + HEADLINE_SIZE_AT, sizeof size);
    return size;
}

/* Share of a new set that the known one contains: |A and B| = J (|A| + |B|) / (1 + J). 0 if J is unknown. */
static double share_of_new(double jaccard, int64_t new_size, int64_t known_size) {
    if (!(jaccard > 0)) return 0;
    return min_f64(jaccard / (1 + jaccard) * (double)(new_size + known_size) / (double)max_i64(new_size, 1), 1);
}

/* Set the lowest bit of each nibble that is not 0, clear all others. */
static inline uint64_t nonzero_nibbles(uint64_t word) {
    word |= word >> 2;
    word |= word >> 1;
    return word & 0x1111111111111111ull;
}

/* Jaccard and containment of two sets, and the Jaccard less what chance may add to it. */
typedef struct alike {
    double jaccard, containment, least;
} alike;

/* Compare two sets, none empty, by sketches of nibbles, 16 bins at a time.
 *
 * Two bins of different hashes are equal by chance once in 15. Between a short text and a page thirty times as long,
 * chance is as large as the signal. So an item may be held back by the lower bound alone. */
static alike compare_sketches(const uint8_t *left, const uint8_t *right, int64_t bytes, int64_t left_size,
                              int64_t right_size) {
    int64_t in_either = 0, in_both = 0, in_equal = 0;
    for (int64_t k = 0; k < bytes; k += 8) {
        uint64_t left_word = load64(left + k), right_word = load64(right + k);
        uint64_t in_left = nonzero_nibbles(left_word), in_right = nonzero_nibbles(right_word);
        in_either += bit_count(in_left | in_right);
        in_both += bit_count(in_left & in_right);
        in_equal += bit_count(in_left & ~nonzero_nibbles(left_word ^ right_word));
    }
    double either = (double)max_i64(in_either, 1), both = (double)in_both; /* no sketch of a set is empty */
    double true_equal = max_f64(0, ((double)in_equal - both * CHANCE_EQUAL) / (1.0 - CHANCE_EQUAL));
    double smaller = (double)min_i64(left_size, right_size), larger = (double)max_i64(left_size, right_size);
    double jaccard = min_f64(true_equal / either, smaller / larger); /* the sizes bound it */
    double by_chance = DOUBT * sqrt((both - true_equal) * CHANCE_EQUAL / (1.0 - CHANCE_EQUAL));
    double least = min_f64(max_f64(true_equal - by_chance, 0) / either, jaccard);
    double containment = jaccard / (1.0 + jaccard) * (double)(left_size + right_size) / smaller;
    return (alike){jaccard, min_f64(1, containment), least};
}

static alike compare_sets(const stored_set *left, const stored_set *right) {
    shared_members found = compare_members(left, right);
    int64_t either = found.of_left + found.of_right - found.both, smaller = min_i64(found.of_left, found.of_right);
    double jaccard = (double)found.both / (double)max_i64(either, 1);
    return (alike){jaccard, (double)found.both / (double)max_i64(smaller, 1), jaccard};
}

static bool has_simhash(const layout *at) { return at->simhash > 0; }

/* The Hamming distance of two SimHashes, and the cosine that it estimates. */
static void measure_simhashes(similarity *pair, uint64_t left, uint64_t right) {
    int64_t differ = bit_count(left ^ right);
    pair->distance = (float)differ;
    pair->body = (float)max_f64(cos(PI / 64 * (double)differ), 0);
}

/* A headline: ascending hashes of its words. The lowest bit says that the item's own text has the word. Only the
 * smallest hashes of a longer headline are stored. */
typedef struct headline {
    uint16_t words[HEADLINE_FEATURES];
    int64_t size, count; /* of all its words, and of those that are stored */
    int64_t in_text;
} headline;

static headline headline_of(const uint8_t *signature, const layout *layout) {
    headline one = {.size = headline_size_of(signature)};
    one.count = min_i64(one.size, HEADLINE_FEATURES);
    memcpy(one.words, signature + layout->headline, sizeof one.words);
    for (int64_t k = 0; k < one.count; k++) one.in_text += one.words[k] & 1;
    return one;
}

/* Compare two headlines: Jaccard, `swapped`, `grounded` and losses, see similarity.h. words: of the new text. The merge
 * stops where a list of the smallest hashes ends, which gives a bottom-k estimate (Broder 1997). */
static void measure_headlines(similarity *pair, const headline *own, const headline *known, const uint8_t *words) {
    const int64_t end = UINT16_MAX; /* above all words without their lowest bit */
    int64_t x = 0, y = 0, shared = 0, either = 0, losses = 0;
    bool is_own_cut = own->size > own->count, is_known_cut = known->size > known->count;
    bool has_gain = false; /* a word of its text that the other headline lacks */
    for (;; either++) {
        bool own_ends = x == own->count, known_ends = y == known->count;
        if ((own_ends && (known_ends || is_own_cut)) || (known_ends && is_known_cut)) break;
        int64_t a = own_ends ? end : own->words[x] >> 1, b = known_ends ? end : known->words[y] >> 1;
        if (a < b) has_gain |= own->words[x] & 1;
        if (b < a) losses += (known->words[y] & 1) && !has_bit(words, b);
        shared += a == b;
        x += a <= b;
        y += b <= a;
    }
    double own_share = (double)own->in_text / (double)own->count;
    pair->headline = (float)((double)shared / (double)max_i64(either, 1));
    pair->swapped = has_gain && losses > 0;
    pair->grounded = (float)max_f64(own_share, (double)known->in_text / (double)known->count);
    pair->headline_losses = (float)losses;
}

/* ---- one new item and the known ones ---- */

/* The new item of the pairs. */
typedef struct fresh_item {
    const news *news;
    int64_t item, size; /* of its body */
    const uint8_t *signature, *words;
    headline headline;
    stored_set members; /* for exact comparison */
    article *article;   /* NULL if novelty is not computed */
    diff *diff;         /* NULL if the item has no sequence */
} fresh_item;

/* The stored members of a body, decoded, for exact comparison. */
static stored_set members_of(const view *one, uint32_t *members) {
    int64_t size = body_size_of(one->signature);
    view set = set_of(one);
    return (stored_set){members, size ? decode_set(set.body, set.body_bytes, size, members) : 0, size};
}

/* What the signatures say of any two items. */
static void measure_identities(similarity *pair, const fresh_item *new, const uint8_t *known) {
    const uint8_t *own = new->signature;
    int64_t own_size = new->size, known_size = body_size_of(known);
    pair->same_source = source_of(own) == source_of(known) && source_of(own);
    pair->same_text = digest_of(own) == digest_of(known);
    pair->same_id = row_id_of(own) == row_id_of(known);
    pair->smaller_size = (uint32_t)min_i64(own_size, known_size);
    pair->log_size_ratio = (float)log((double)(own_size + SIZE_OFFSET) / (double)(known_size + SIZE_OFFSET));
}

/* Compare the signatures of MinHash: bodies, headlines and words. Return the share of the new body that the known one
 * certainly contains. */
static double measure_minhash(similarity *pair, const fresh_item *new, const uint8_t *known, const stored_set *members,
                            const layout *at) {
    const uint8_t *own = new->signature;
    int64_t known_size = body_size_of(known);
    double least = NAN;
    if (new->size > 0 && known_size > 0) {
        alike found;
        if (members) found = compare_sets(&new->members, members);
        else found = compare_sketches(own + at->body, known + at->body, at->body_bytes, new->size, known_size);
        pair->body = (float)found.jaccard;
        pair->containment = (float)found.containment;
        least = found.least;
    }
    if (new->headline.size > 0 && headline_size_of(known) > 0) {
        headline right = headline_of(known, at);
        measure_headlines(pair, &new->headline, &right, new->words);
    }
    exchanged words = exchanged_words(known + at->words, own + at->words);
    uint64_t own_figures = load64(own + at->figures), known_figures = load64(known + at->figures);
    pair->lost_words = (float)words.lost;
    pair->gained_words = (float)words.gained;
    pair->fewer_words = (float)words.fewer;
    pair->lost_numbers = (float)bit_count(known_figures & ~own_figures);
    pair->gained_numbers = (float)bit_count(own_figures & ~known_figures);
    pair->same_form = own[at->form] == known[at->form] && own[at->form];
    pair->other_order = pair->headline >= SAME_WORDS && own[at->form] != known[at->form];
    return share_of_new(least, new->size, known_size);
}

/* Measure what the new item's article has that the known item lacks. body_covered: of `measure_minhash`, for an item
 * with hardly any article. */
static void measure_novelty(similarity *pair, const fresh_item *new, const uint8_t *known, const stored_set *members,
                            const layout *at, double body_covered, const view *known_view) {
    article *article = new->article;
    int64_t known_size = body_size_of(known);
    bool has_diff = new->diff && diff_with(new->diff, known_view);
    int64_t size = min_i64(article->shingle_count, new->size); /* the shingles of a doubled text are counted twice */
    pair->covered = (float)body_covered;
    if (size > 0 && members) {
        stored_set own = {article->members, min_i64(size, MAX_MEMBERS), size};
        shared_members found = compare_members(&own, members);
        pair->covered = (float)((double)found.both / (double)max_i64(found.of_left, 1));
    } else if (size > 0) {
        alike found = {0, 0, 0};
        if (known_size > 0)
            found = compare_sketches(article->sketch, known + at->body, at->body_bytes, size, known_size);
        pair->covered = (float)share_of_new(found.least, size, known_size);
    }
    find_new(pair, new->news, new->item, new->signature + at->headline, known + at->words, load64(known + at->figures),
             article, has_diff ? new->diff : NULL);
    if (has_diff) find_differences(pair, new->news, new->item, article, new->diff);
    int8_t says = new->news->corrects[new->item];
    float gains = max_f32(pair->new_words, pair->gained_words); /* a short note is no prose */
    bool is_changed = (pair->new_numbers_anywhere > 0 && pair->lost_numbers > 0) || pair->facts + pair->altered > 0;
    pair->corrects |= (says == IN_TEXT && gains >= NOTE) || (says >= IN_TEXT && is_changed);
}

/* For Python: type and name of each field. */
CORE_API const char *const similarity_fields =
#define FIELD(type, name) #type "\t" #name "\n"
#include "similarity.h"
    ;

/* Nothing is known but `apart`. */
static void forget(similarity *pair) {
    float apart = pair->apart;
    *pair = (similarity){0};
    for (float *one = &pair->apart; one <= &pair->rest; one++) *one = NAN;
    pair->apart = apart;
}

struct workspace {
    layout layout;
    bool is_exact;
    uint32_t *own_members, *known_members;
    article article;
    diff *diff;
};

void measure(workspace *room, similarity *pairs, const news *news, int64_t item, const view *own, const view *known,
             int64_t count) {
    const layout *at = &room->layout;
    fresh_item new = {.news = news, .item = item, .signature = own->signature, .size = body_size_of(own->signature)};
    if (!has_simhash(at)) {
        new.words = news->word_sets + item * WORD_SET_BYTES;
        new.headline = headline_of(new.signature, at);
    }
    if (room->is_exact) new.members = members_of(own, room->own_members);
    if (news->asks_novelty) {
        new.article = &room->article;
        take_article(new.article, news, item, at->body_bytes, room->is_exact);
        new.diff = begin_diff(room->diff, own, new.article->tokens) ? room->diff : NULL;
    }
    for (int64_t k = 0; k < count; k++) {
        similarity *pair = pairs + k;
        const uint8_t *other = known[k].signature;
        stored_set decoded, *members = NULL;
        double body_covered = NAN;
        if (room->is_exact) {
            decoded = members_of(known + k, room->known_members);
            members = &decoded;
        }
        forget(pair);
        measure_identities(pair, &new, other);
        if (!has_simhash(at)) body_covered = measure_minhash(pair, &new, other, members, at);
        else if (new.size && body_size_of(other))
            measure_simhashes(pair, load64(new.signature + at->simhash), load64(other + at->simhash));
        pair->within_hamming = pair->distance <= (float)news->hamming;
        pair->corrects = news->corrects[item] == IN_HEADLINE && !(pair->headline >= 1);
        if (new.article) measure_novelty(pair, &new, other, members, at, body_covered, known + k);
    }
}

void describe(workspace *room, const similarity *pair, const news *news, int64_t item, const view *known,
              most_new *found) {
    const uint8_t *words = known->signature + room->layout.words;
    bool has_diff = !isnan(pair->matched) && diff_with(room->diff, known);
    find_most_new(found, &news->texts, item, words, load64(known->signature + room->layout.figures),
                  has_diff ? room->diff : NULL);
}

/* ---- room, and many pairs ---- */

/* Whether the bodies of signatures lie inside their array, one after the other. */
static bool has_bodies(const signatures *all) {
    int64_t before = 0;
    for (int64_t i = 0; i <= all->count; before = all->bounds[i++])
        if (all->bounds[i] < before || all->bounds[i] > all->body_bytes) return false;
    return true;
}

/* Whether the fields of a layout lie inside a signature. */
static bool is_layout(const layout *at) {
    if (has_simhash(at)) return at->simhash + 8 <= at->stride;
    if (at->form < 0 || at->headline < 0 || at->words < 0 || at->figures < 0 || at->body < 0) return false;
    if (at->body_bytes < 0 || at->body_bytes % 8 || at->body + at->body_bytes > at->stride) return false;
    return at->headline_features == HEADLINE_FEATURES && at->words + FILTER_BYTES <= at->stride;
}

int64_t take_workspace(arena *scratch, const news *news, const signatures *items, workspace **taken) {
    workspace *room = *taken = arena_take(scratch, 1, sizeof *room);
    if (!room) return CORE_NO_MEMORY;
    room->layout = items->layout;
    room->is_exact = !items->layout.body_bytes && !has_simhash(&items->layout);
    if (!is_layout(&items->layout) || (items->bounds && !has_bodies(items))) return CORE_BAD_SIZE;
    if (room->is_exact && items->count && !items->bounds) return CORE_BAD_SIZE;
    if (room->is_exact) {
        room->own_members = arena_take(scratch, MAX_MEMBERS, sizeof *room->own_members);
        room->known_members = arena_take(scratch, MAX_MEMBERS, sizeof *room->known_members);
        if (arena_has_failed(scratch)) return CORE_NO_MEMORY;
    }
    if (!news->asks_novelty) return 0;
    room->diff = take_diff(scratch);
    if (!room->diff) return CORE_NO_MEMORY;
    return room_for_article(scratch, news, &items->layout, room->is_exact, &room->article);
}

/* Measure pairs of items: pairs[p] of new[of_new[p]] and known[of_known[p]]; fastest if the pairs of one new item
 * follow each other. */
CORE_API int64_t measure_pairs(arena *scratch, similarity *pairs, const news *news, const signatures *new,
                               const signatures *known, const int64_t *of_new, const int64_t *of_known, int64_t total) {
    workspace *room;
    arena_reset(scratch);
    int64_t error = take_workspace(scratch, news, new, &room);
    if (error) return error;
    if (memcmp(&new->layout, &known->layout, sizeof(layout))) return CORE_BAD_SIZE;
    if ((room->is_exact && !known->bounds) || (known->bounds && !has_bodies(known))) return CORE_BAD_SIZE;
    for (int64_t p = 0; p < total; p++) {
        if (of_new[p] < 0 || of_new[p] >= min_i64(new->count, news->count)) return CORE_BAD_SIZE;
        if (of_known[p] < 0 || of_known[p] >= known->count) return CORE_BAD_SIZE;
    }
    view others[PAIRS_AT_ONCE];
    for (int64_t p = 0, count; p < total; p += count) {
        view own = view_at(new, of_new[p]);
        for (count = 0; p + count < total && count < PAIRS_AT_ONCE && of_new[p + count] == of_new[p]; count++) {
            others[count] = view_at(known, of_known[p + count]);
            int64_t gap = time_between(time_of(own.signature), time_of(others[count].signature));
            pairs[p + count].apart = (float)((double)gap / HOUR);
        }
        measure(room, pairs + p, news, of_new[p], &own, others, count);
    }
    return total;
}

/* What a new item has that a known one lacks: words, sentences and figures.
 *
 * While the words of the known item are kept, the diff says which are new. Afterwards a word is new if the word filter
 * of the known item lacks it. Novelty is computed on the article of the new item: its sentences of prose without
 * passages that recur in other originals. If there is hardly any article, novelty is computed on the whole text and the
 * headline.
 */
#include "core.h"

#include <math.h>

/* Tokens of an article below which novelty is computed on the whole text. */
enum { FEW_TOKENS = 15 };
/* A sentence is new if it has some words, and the known item lacks this share of them. A text without sentence marks,
 * such as a transcript, is cut into windows of passages (16 words) instead. */
static const double NEW_SHARE = 0.35;
enum { SENTENCE_TOKENS = 5, WINDOW_TOKENS = 24 };
/* -log(4): the known page is four times as long. Then bins that are equal by chance weigh as much as a quarter of the
 * article. */
static const double FAR_LONGER = -1.3862943611198906;
/* The words that may be new: those found, and this many standard deviations of a Poisson count more. */
static const double DOUBT = 2.0;
/* A text of some 2,500 distinct words sets nearly all bits of its filter, which then says nothing. */
#define FULLEST 0.97
static const double FULL = 1 / (1 - FULLEST);

/* How many words, and how many numbers, each absent one stands for; at least 1. */
typedef struct absence {
    double each_word, each_number;
} absence;

static absence absence_in(const uint8_t *filter, uint64_t figures) {
    int64_t ones = 0;
    for (int k = 0; k < FILTER_BYTES; k += 8) ones += bit_count(load64(filter + k));
    double fill = (double)ones / FILTER_BITS, of_figures = (double)bit_count(figures) / 64;
    return (absence){1 / (1 - min_f64(fill, FULLEST)), 1 / (1 - min_f64(fill * fill * of_figures, FULLEST))};
}

exchanged exchanged_words(const uint8_t *known, const uint8_t *own) {
    int64_t lost = 0, gained = 0, of_known = 0, of_own = 0;
    for (int k = 0; k < FILTER_BYTES; k += 8) {
        uint64_t left = load64(own + k), right = load64(known + k);
        lost += bit_count(right & ~left);
        gained += bit_count(left & ~right);
        of_own += bit_count(left);
        of_known += bit_count(right);
    }
    double own_free = 1 - min_f64((double)of_own / FILTER_BITS, FULLEST);
    double known_free = 1 - min_f64((double)of_known / FILTER_BITS, FULLEST);
    double fewer = -FILTER_BITS * log(max_f64(own_free, known_free));
    return (exchanged){(double)lost / own_free, (double)gained / known_free, fewer};
}

/* Write 1 to absent[place] for each bit that is not set, else 0. To look up many words, one load a word takes a quarter
 * of the time of `has_word`. */
static void write_absent(const uint8_t *filter, uint8_t *absent) {
    const uint64_t ones = 0x0101010101010101ull, diagonal = 0x8040201008040201ull;
    for (int k = 0; k < FILTER_BYTES; k++) {
        uint64_t bits = (uint8_t)~filter[k] * ones & diagonal; /* bit i in byte i; then 1 where it is not 0 */
        uint64_t flags = (bits + 0x7F * ones) >> 7 & ones;
        memcpy(absent + 8 * k, &flags, sizeof flags);
    }
}

/* ---- the article of a new item ---- */

/* The passages of a text, and its first token. */
typedef struct text_bounds {
    int64_t first, last, token;
} text_bounds;

static text_bounds bounds_of(const texts *texts, int64_t item) {
    int64_t first = texts->firsts[2 * item], last = texts->lasts[2 * item];
    return (text_bounds){first, last, first ? texts->passages[first - 1].end : 0};
}

/* Find out which passages of the item recur. */
static void recognise(const news *news, int64_t item, text_bounds text, bool *recurs) {
    const passage *passages = news->texts.passages;
    /* The table exceeds the cache: reading all buckets ahead makes the cache misses overlap. */
    for (int64_t p = text.first; p < text.last; p++) touch_boilerplate(&news->boilerplate, passages[p].hash);
    for (int64_t p = text.first; p < text.last; p++)
        recurs[p - text.first] = is_boilerplate(&news->boilerplate, passages[p].hash, news->starts[item]);
}

/* Take the figures of the item, each once, those of prose first. */
static void take_figures(const texts *texts, int64_t item, text_bounds text, article *article) {
    int64_t count = 0;
    for (int of_prose = 1; of_prose >= 0; of_prose--) {
        int64_t p = text.first;
        for (int64_t k = texts->firsts[2 * item + 1]; k < texts->lasts[2 * item + 1]; k++) {
            while (p < text.last - 1 && texts->passages[p].end <= texts->numbers[k].token) p++;
            if (texts->passages[p].is_prose == of_prose) article->figures[count++] = texts->numbers[k].value;
        }
        count = distinct(article->figures, count, article->table, article->figures);
        if (of_prose) article->prose_figures = count;
    }
    article->figure_count = count;
}

/* Sketch the shingles of the article like a body, or make a set of them. The share that a known body has follows from
 * their Jaccard and sizes, so it takes no additional bytes per original. */
static void represent(article *article, int64_t count, int64_t sketch_bytes, bool is_exact) {
    article->shingle_count = count;
    if (!is_exact) {
        sketch(article->shingles, count, 2 * sketch_bytes, article->minima, article->sketch);
        return;
    }
    article->shingle_count = count = distinct(article->shingles, count, article->table, article->shingles);
    const uint64_t *sorted = sort_words(article->shingles, article->other, count, SET_FIRST_BYTE, 8);
    for (int64_t k = 0; k < count; k++) article->members[k] = member_of(sorted[k]);
}

/* Take the tokens on which novelty is computed, their sentences, and the shingles of an article; return the number of
 * shingles. */
static int64_t take_passages(article *article, const texts *texts, text_bounds text) {
    int64_t start = text.token, shingles = 0, window = 0;
    for (int64_t p = 0; p < text.last - text.first; p++) {
        const passage *one = texts->passages + text.first + p;
        if ((one->is_prose || !article->is_article) && !article->recurs[p]) {
            int64_t count = one->end - start, size = one->last_shingle - one->first_shingle;
            memcpy(article->places + article->place_count, texts->words + start, (size_t)count * sizeof *texts->words);
            for (int64_t k = 0; k < count; k++)
                article->tokens_at[article->place_count + k] = (int32_t)(start - text.token + k);
            article->place_count += count;
            window += count;
            if (article->is_article && size) {
                const uint64_t *from = texts->shingles + one->first_shingle;
                memcpy(article->shingles + shingles, from, (size_t)size * sizeof *from);
                shingles += size;
            }
        }
        if (window >= WINDOW_TOKENS || (one->is_last && window > 0)) {
            article->ends[article->sentence_count++] = article->place_count;
            window = 0;
        }
        start = one->end;
    }
    return shingles;
}

void take_article(article *article, const news *news, int64_t item, int64_t sketch_bytes, bool is_exact) {
    const texts *texts = &news->texts;
    text_bounds text = bounds_of(texts, item);
    recognise(news, item, text, article->recurs);
    int64_t start = text.token;
    article->length = article->place_count = article->sentence_count = 0;
    for (int64_t p = text.first; p < text.last; start = texts->passages[p++].end)
        if (texts->passages[p].is_prose && !article->recurs[p - text.first])
            article->length += texts->passages[p].end - start;
    article->tokens = start - text.token;
    article->is_article = article->length >= FEW_TOKENS;
    int64_t shingles = take_passages(article, texts, text);
    take_figures(texts, item, text, article);
    represent(article, shingles, sketch_bytes, is_exact);
}

/* The sizes of the largest text of a batch. */
typedef struct largest {
    int64_t tokens, passages, shingles, numbers;
} largest;

/* Check that the text of an item lies inside its arrays, and take its sizes into account. */
static bool fits(const texts *texts, int64_t item, largest *most) {
    int64_t first = texts->firsts[2 * item], last = texts->lasts[2 * item];
    int64_t number = texts->firsts[2 * item + 1], last_number = texts->lasts[2 * item + 1];
    if (first < 0 || first > last || last > texts->passage_count) return false;
    if (number < 0 || number > last_number || last_number > texts->number_count) return false;
    if (first == last && number < last_number) return false;
    int64_t token = first ? texts->passages[first - 1].end : 0, tokens = 0, shingles = 0;
    for (const passage *one = texts->passages + first; one < texts->passages + last; token = one++->end) {
        if (token < 0 || token > one->end || one->end > texts->word_count) return false;
        int64_t shingle = one->first_shingle, last_shingle = one->last_shingle;
        /* An empty range may begin behind the last shingle. */
        bool is_inside = 0 <= shingle && last_shingle <= texts->shingle_count;
        if (shingle > last_shingle || (shingle < last_shingle && !is_inside)) return false;
        tokens += one->end - token;
        shingles += last_shingle - shingle;
    }
    most->tokens = max_i64(most->tokens, tokens);
    most->passages = max_i64(most->passages, last - first);
    most->shingles = max_i64(most->shingles, shingles);
    most->numbers = max_i64(most->numbers, last_number - number);
    return true;
}

int64_t room_for_article(arena *scratch, const news *news, const layout *layout, bool is_exact, article *article) {
    largest most = {0, 0, 0, 0};
    for (int64_t item = 0; item < news->count; item++)
        if (!fits(&news->texts, item, &most)) return CORE_BAD_SIZE;
    int64_t bins = 2 * layout->body_bytes, hashed = is_exact ? max_i64(most.shingles, most.numbers) : most.numbers;
    article->places = arena_take(scratch, most.tokens, sizeof *article->places);
    article->tokens_at = arena_take(scratch, most.tokens, sizeof *article->tokens_at);
    article->ends = arena_take(scratch, most.passages, sizeof *article->ends);
    article->recurs = arena_take(scratch, most.passages, sizeof *article->recurs);
    article->figures = arena_take(scratch, most.numbers, sizeof *article->figures);
    article->shingles = arena_take(scratch, most.shingles, sizeof *article->shingles);
    article->sketch = arena_take(scratch, layout->body_bytes, sizeof *article->sketch);
    article->minima = arena_take(scratch, bins, sizeof *article->minima);
    article->members = arena_take(scratch, is_exact ? most.shingles : 0, sizeof *article->members);
    article->other = arena_take(scratch, is_exact ? most.shingles : 0, sizeof *article->other);
    article->table = take_slots(scratch, hashed);
    article->lacks = arena_take(scratch, FILTER_BITS + 1, sizeof *article->lacks);
    if (arena_has_failed(scratch)) return CORE_NO_MEMORY;
    article->lacks[NO_WORD] = 0;
    return 0;
}

/* ---- what the known item lacks of it ---- */

/* Count the words in new sentences, and the share of sentences with a new word. Return the number of new words. With a
 * diff a word is new if neither its place nor its stem is known, and the share that the known item holds is exact. */
static double find_new_words(similarity *pair, const article *article, double each_word, const diff *diff) {
    double new = 0, new_sentences = 0;
    const uint8_t *states = diff ? states_of(diff) : NULL;
    int64_t start = 0, sentences = 0, touched = 0, matched = 0;
    for (int64_t sentence = 0; sentence < article->sentence_count; sentence++) {
        int64_t end = article->ends[sentence], absent = 0, count = end - start;
        for (; start < end && !states; start++) absent += article->lacks[article->places[start]];
        for (; start < end; start++) { /* without a branch */
            int place = article->places[start], is_word = place != NO_WORD, state = states[article->tokens_at[start]];
            int is_matched = state == IS_MATCHED, is_absent = article->lacks[place] | (is_word & (state == HAS_NONE));
            matched += is_word & is_matched;
            absent += is_absent & !is_matched;
        }
        new += (double)absent;
        if (count < SENTENCE_TOKENS) continue;
        sentences++;
        touched += absent > 0;
        if ((double)absent * each_word >= NEW_SHARE * (double)count) new_sentences += (double)count;
    }
    pair->new_sentences = (float)new_sentences;
    pair->spread = (float)((double)touched / (double)max_i64(sentences, 1));
    if (diff && article->place_count) pair->covered = (float)((double)matched / (double)article->place_count);
    return new;
}

/* Count the figures that the known item lacks, in prose and anywhere. */
static void find_new_figures(similarity *pair, const article *article, const uint8_t *filter, uint64_t figures,
                             double each_number) {
    int64_t numbers = article->is_article ? article->prose_figures : article->figure_count, anywhere = 0, in_prose = 0;
    for (int64_t k = 0; k < article->figure_count; k++) {
        bool is_absent = !has_number(filter, figures, (uint32_t)article->figures[k]);
        anywhere += is_absent;
        in_prose += is_absent && k < numbers;
    }
    pair->numbers = (float)numbers;
    pair->new_numbers = (float)((double)in_prose * each_number);
    pair->new_numbers_anywhere = (float)((double)anywhere * each_number);
}

/* Count the words of the headline that the known item lacks, and those of them that its own text has. headline: in the
 * signature, where the lowest bit of a word says so. Return the number of all its words. */
static int64_t find_new_headline_words(similarity *pair, const uint32_t *words, const uint8_t *headline,
                                       const uint8_t *filter) {
    int64_t count = 0, lacking = 0, gains = 0;
    for (int k = 0; k < HEADLINE_FEATURES; k++) {
        if (words[k] && !has_word(filter, words[k])) {
            lacking++;
            gains += headline[2 * k] & 1;
        }
        count += words[k] != 0;
    }
    pair->new_headline = (float)lacking;
    pair->headline_gains = (float)gains;
    return count;
}

/* Count the numbers of the headline, those that the known item lacks, and how many of these its own text has. */
static void find_new_headline_numbers(similarity *pair, const uint32_t *values, const article *article,
                                      const uint8_t *filter, uint64_t figures) {
    int64_t count = 0, lacking = 0, in_text = 0;
    for (int k = 0; k < MOST_HEADLINE_NUMBERS; k++) {
        count += values[k] != 0;
        if (!values[k] || has_number(filter, figures, values[k])) continue;
        lacking++;
        for (int64_t f = 0; f < article->figure_count; f++) in_text += article->figures[f] == values[k];
    }
    pair->headline_numbers = (float)count;
    pair->new_headline_numbers = (float)lacking;
    pair->headline_figures = (float)in_text;
}

void find_differences(similarity *pair, const news *news, int64_t item, const article *article, const diff *diff) {
    const texts *texts = &news->texts;
    text_bounds text = bounds_of(texts, item);
    differences found = {.next = NONE, .facts = denies_headline(diff)};
    int64_t begin = text.token;
    bool is_prose = false, recurs = false;
    for (int64_t p = text.first; p < text.last; p++) {
        const passage *one = texts->passages + p;
        is_prose |= one->is_prose;
        recurs |= article->recurs[p - text.first];
        if (!one->is_last) continue;
        int64_t first = begin - text.token, last = one->end - text.token;
        /* A warning that other reports have, too, is news if the headline says it. */
        if (!recurs || says_headline(diff, first, last))
            add_sentence(diff, first, last, is_prose, one->is_marked, &found);
        begin = one->end;
        is_prose = recurs = false;
    }
    pair->matched = found.tokens ? (float)((double)found.matched / (double)found.tokens) : 1; /* all recurs elsewhere */
    pair->fresh = (float)found.fresh;
    pair->inserted = (float)found.inserted;
    pair->altered = (float)found.altered;
    pair->facts = (float)found.facts;
    pair->altered_headline = (float)found.of_headline;
    pair->brief = (float)found.brief;
    pair->told = (float)found.told;
    pair->lead = (float)found.lead;
    pair->said = (float)found.said;
    pair->places = (float)found.places;
    pair->rewritten = (float)found.rewritten;
    pair->unmatched = (float)(found.tokens - found.matched);
    pair->rest = (float)found.rest;
}

void find_new(similarity *pair, const news *news, int64_t item, const uint8_t *headline, const uint8_t *filter,
              uint64_t figures, article *article, const diff *diff) {
    absence absent = absence_in(filter, figures);
    double each_word = diff ? 1 : absent.each_word;
    write_absent(filter, article->lacks);
    double new = find_new_words(pair, article, each_word, diff);
    double may_be_new = diff ? new : (new + DOUBT * sqrt(new + 1)) * each_word;
    bool is_far_longer = pair->log_size_ratio < FAR_LONGER;
    if (each_word >= 2 && is_far_longer) new = new + DOUBT * sqrt(new + 1); /* in doubt an item is let through */
    if (each_word >= FULL) { /* the known item has nearly all words: its shingles count instead */
        if (is_far_longer) pair->covered = 0; /* chance has as many */
        new = may_be_new = (1 - (double)pair->covered) * (double)article->place_count;
        pair->new_sentences = (float)new;
        each_word = 1;
    }
    if (!article->is_article) pair->new_sentences = 0;
    find_new_figures(pair, article, filter, figures, absent.each_number);
    int64_t of_headline =
        find_new_headline_words(pair, news->texts.headline_words + item * HEADLINE_FEATURES, headline, filter);
    pair->words = (float)article->place_count;
    pair->new_words = (float)(new * each_word);
    if (!article->is_article) {
        pair->words = (float)((double)pair->words + (double)of_headline);
        pair->new_words = pair->new_words + pair->new_headline;
    }
    /* A shingle with a new word is unknown. This bounds what a sketch says of a short article and a long page. */
    double lacking = max_f64(may_be_new, pair->new_words) / max_f64(pair->words, 1);
    pair->covered = (float)min_f64(pair->covered, max_f64(1 - lacking, 0));
    const uint32_t *headline_numbers = news->texts.headline_numbers + item * MOST_HEADLINE_NUMBERS;
    find_new_headline_numbers(pair, headline_numbers, article, filter, figures);
    pair->tokens = (float)article->length;
    pair->article_share = (float)((double)article->length / (double)max_i64(article->tokens, 1));
}

/* ---- for people ---- */

/* Words that are shown on each side of those that stand in the place of others. */
enum { BESIDE = 6 };
/* Sentences come before menus, however long these are. */
enum { SENTENCES_FIRST = 1 << 30 };

/* Take the figures that the known item has nowhere, and whether the headline says something that it has nowhere. */
static void find_unknown(most_new *found, const texts *texts, int64_t item, int64_t start, const uint8_t *filter,
                         uint64_t figures, const diff *diff) {
    int64_t last = texts->lasts[2 * item + 1];
    for (int64_t k = texts->firsts[2 * item + 1]; k < last && found->number_count < MOST_NUMBERS; k++) {
        int64_t token = texts->numbers[k].token - start;
        bool is_known = diff ? states_of(diff)[token] != HAS_NONE : has_number(filter, figures, texts->numbers[k].value);
        if (!is_known) found->numbers[found->number_count++] = (int32_t)token;
    }
    found->is_headline_new = diff && has_new_headline(diff);
    for (int k = 0; k < HEADLINE_FEATURES && !diff; k++) {
        uint32_t hash = texts->headline_words[item * HEADLINE_FEATURES + k];
        found->is_headline_new |= hash && !has_word(filter, hash);
    }
}

void find_most_new(most_new *found, const texts *texts, int64_t item, const uint8_t *filter, uint64_t figures,
                   const diff *diff) {
    text_bounds text = bounds_of(texts, item);
    const uint8_t *states = diff ? states_of(diff) : NULL;
    int64_t at = 0, begin = 0, new = 0, first = 0, last = 0, most = 0;
    *found = (most_new){0};
    for (const passage *one = texts->passages + text.first; one < texts->passages + text.last; one++) {
        for (; at < one->end - text.token; at++) {
            uint16_t word = texts->words[text.token + at];
            if (states ? states[at] == IS_MATCHED : word == NO_WORD || has_bit(filter, word)) continue;
            if (!new++) first = at;
            last = at + 1;
        }
        if (!one->is_last) continue;
        int64_t rank = new && (one->is_prose || one->is_marked) ? SENTENCES_FIRST + new : new;
        if (rank > most) {
            bool is_replaced = states && 2 * new < at - begin;
            most = rank;
            found->begin = (int32_t)(is_replaced ? max_i64(first - BESIDE, begin) : begin);
            found->end = (int32_t)(is_replaced ? min_i64(last + BESIDE, at) : at);
            found->first = is_replaced ? (int32_t)first : 0;
            found->last = is_replaced ? (int32_t)last : 0;
        }
        begin = at;
        new = 0;
    }
    found->tokens = (int32_t)at;
    find_unknown(found, texts, item, text.token, filter, figures, diff);
}

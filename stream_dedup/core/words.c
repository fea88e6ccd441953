/* Find the words and numbers of a text. A signature has a Bloom filter of those in headline and text, 96 bytes. It
 * tells which words and numbers of a later item an original lacks.
 *
 * New words tell news from rewording better than new shingles do, because a synonym changes three shingles and one
 * word. A word counts by its first five letters, so that another ending is no new word (the area under the ROC curve on
 * Nepali news: .918 with whole words, .932 with five letters; nothing lost elsewhere). A word of a script without
 * spaces is a pair of characters.
 *
 * Digits of any script are folded: 1,000 and 1.000 are one number, in any digits; so are the halves of a score (3:1,
 * 3-1) and the groups of a date. "Twelve" and "12th" are 12; a word with digits that is no number (L4471B) is its own.
 * Dates and times are numbers, too: with them, the decision has a log loss of .2285, without them .2310.
 *
 * A word sets one bit of the filter; a number sets two, and one of 64 bits that are for numbers alone, so that it is
 * rarely found by chance: with two bits alone, .16 of the changed figures of headlines were. The comparison (novelty.c)
 * corrects for chance: if a share `fill` of the bits is set, a word that the original lacks is still found absent in a
 * share 1 - fill of all cases.
 *
 * Source: Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970.
 */
#include "core.h"

/* The hash of the first letters of a word if they have a byte each. */
static inline uint64_t stem_of_ascii(uint64_t head, uint64_t seed) {
    return hash_head(head & (UINT64_MAX >> (64 - 8 * STEM_LETTERS)), seed);
}

/* The hash of the first letters of a word; of a whole number, or of the digits of a number word. */
static inline uint64_t stem_of(const token_list *tokens, int64_t i, uint64_t seed) {
    const uint8_t *start = tokens->text + tokens->places[2 * i], *end = tokens->text + tokens->places[2 * i + 1];
    if (is_digit(*start) || tokens->traits[i] == NUMBER_WORD) return tokens->hashes[i];
    if (!(tokens->heads[i] & STEM_BEYOND_ASCII)) return stem_of_ascii(tokens->heads[i], seed);
    /* Letters of at most three bytes: where the sixth one begins, without a branch. */
    uint64_t begins = ~high_bits((bytes16)((load16(start) & 0xC0) == 0x80)) & 0xFFFF;
    for (int letters = 0; letters < STEM_LETTERS; letters++) begins &= begins - 1;
    if (begins) {
        int64_t size = trailing_zeros(begins);
        return size < end - start ? hash_word(start, size, seed) : tokens->hashes[i];
    }
    const uint8_t *at = start;
    for (int letters = 0; at < end && letters < STEM_LETTERS; letters++) {
        at++;
        while (at < end && !begins_character(*at)) at++; /* the other bytes of a character */
    }
    return at < end ? hash_word(start, at - start, seed) : tokens->hashes[i];
}

/* The feature that begins at token i: a word, or a pair of adjacent characters; 0 if there is none. */
static inline uint64_t feature_of(const token_list *tokens, int64_t i, uint64_t seed) {
    const uint8_t *kinds = tokens->kinds;
    if (!kinds[i]) return stem_of(tokens, i, seed) | 1;
    if (i + 1 < tokens->count && kinds[i + 1]) return mix(rotated(tokens->hashes[i]) ^ tokens->hashes[i + 1]) | 1;
    if (i && kinds[i - 1]) return 0; /* the last character is part of the pair before */
    return tokens->hashes[i] | 1;
}

/* Write the distinct features of a headline, ascending; return their number, at most MOST_HEADLINE_FEATURES.
 * table: see `distinct`; out: as long as there are tokens. */
int64_t find_headline_features(const token_list *tokens, uint64_t seed, slot_table table, uint64_t *out) {
    int64_t found = 0;
    for (int64_t i = 0; i < tokens->count; i++) {
        uint64_t hash = feature_of(tokens, i, seed);
        if (hash) out[found++] = hash;
    }
    found = min_i64(distinct(out, found, table, out), MOST_HEADLINE_FEATURES);
    for (int64_t i = 1; i < found; i++) { /* few: sort by insertion */
        uint64_t hash = out[i];
        int64_t place = i;
        for (; place && out[place - 1] > hash; place--) out[place] = out[place - 1];
        out[place] = hash;
    }
    return found;
}

static void find_stems(const uint64_t *restrict heads, int64_t count, uint64_t seed, uint32_t *restrict out) {
    for (int64_t i = 0; i < count; i++) out[i] = narrowed(stem_of_ascii(heads[i], seed));
}

/* Write the feature of each token, narrowed; 0 where none begins. */
void find_words(const token_list *tokens, uint64_t seed, uint32_t *out) {
    if (!tokens->has_characters) { /* most texts */
        find_stems(tokens->heads, tokens->count, seed, out);
        for (int64_t k = 0; k < tokens->special_count; k++)
            out[tokens->special[k]] = narrowed(stem_of(tokens, tokens->special[k], seed));
        return;
    }
    for (int64_t i = 0; i < tokens->count; i++) {
        uint64_t hash = feature_of(tokens, i, seed);
        out[i] = hash ? narrowed(hash) : 0;
    }
}

/* Whether a byte may join two groups of digits. */
static inline bool joins_groups(uint8_t byte) {
    return byte == '.' || byte == ',' || byte == ':' || byte == '/' || byte == '-';
}

/* The digits of a number, in ASCII; those of a longer one are cut off. */
typedef struct digits {
    uint8_t text[8 * 5];
    int64_t count;
} digits;

/* Append the digits that token i begins with. False if nothing can follow them: they are the last group, or it is a
 * word with more digits, such as "4x4", and no number. */
static inline bool add_group(const token_list *tokens, int64_t i, digits *sum, bool *is_number) {
    int32_t at = tokens->places[2 * i], end = tokens->places[2 * i + 1];
    for (; at < end && is_digit(tokens->text[at]); at++)
        if (sum->count < 32) sum->text[sum->count++] = tokens->text[at];
    bool is_whole = at == end;
    for (; at < end; at++) *is_number &= !is_digit(tokens->text[at]); /* "12th" and "3pm" count by their digits */
    return is_whole;
}

/* The hash of the number that begins with token i, or of a word with digits; *next: the token after it. A number word
 * and its digits have one hash. */
static uint64_t number_at(const token_list *tokens, int64_t i, uint64_t seed, int64_t *next) {
    const int32_t *places = tokens->places;
    digits sum = {.count = 0};
    bool is_number = is_digit(tokens->text[places[2 * i]]);
    *next = i + 1;
    if (!is_number) return tokens->hashes[i];
    bool goes_on = add_group(tokens, i, &sum, &is_number);
    if (!is_number) return tokens->hashes[i];
    while (goes_on && *next < tokens->count) { /* the other groups of the number */
        int32_t end = places[2 * *next - 1], start = places[2 * *next];
        if (start - end != 1 || !joins_groups(tokens->text[end]) || !is_digit(tokens->text[start])) break;
        digits more = sum;
        goes_on = add_group(tokens, *next, &more, &is_number);
        if (!is_number) break;
        sum = more;
        ++*next;
    }
    return hash_word(sum.text, sum.count, seed);
}

/* Write each number of a text: figures, words with digits, number words; return how many there are, at most one a
 * token. */
int64_t find_numbers(const token_list *tokens, uint64_t seed, number *out) {
    int64_t found = 0, next = 0; /* next: the token after a number */
    for (int64_t k = 0; k < tokens->special_count; k++) {
        int64_t i = tokens->special[k];
        if (tokens->traits[i] < NUMBER_WORD || tokens->kinds[i] || i < next) continue;
        out[found++] = (number){narrowed(number_at(tokens, i, seed, &next)), (int32_t)i};
    }
    return found;
}

/* Cut a text into sentences and lines, and these into passages; tell prose from menus and lists.
 *
 * A page is an article among menus, link lists, forms, captions and share panels. Only the article can bring news. A
 * sentence of prose ends in a sentence mark and is at least eight words long (or fifteen characters of a script
 * without spaces); menus and lists do not. The rule needs no list of words or sites, so it holds for every script.
 * boilerplate.c later recognises passages that recur on many pages (subscribe, copyright), by their hashes. Lines of
 * equal length are wrapped, as in texts of news wires: there a line break ends a sentence only before a blank or an
 * empty line.
 */
#include "core.h"

/* With these two lengths of prose, 33 of 40 held-back items are found in which readers saw something new. Fewer words
 * let in captions and menu lines with a full stop; more words lose short quotes. */
enum {
    LEAST_SENTENCE = 15, /* length of the shortest sentence of prose: two units a word, one a character */
    LEAST_LINE = 80,     /* and of a line where no line has a sentence mark: Thai has none, and menus are shorter */
    LEAST_UNMARKED = 30, /* of a short sentence in a script without marks */
    MARKED_SHARE = 10,   /* a text with less than a tenth in marked sentences has none: an exclamation alone */
    PASSAGE_TOKENS = 16, /* a sentence of some 18 words is one passage, so that its hash stands for all of it */
};
/* A text is wrapped if it has three lines or more, none above 80 bytes, half of them 50 bytes or more. */
enum { WRAPPED_LINES = 3, LONGEST_LINE = 80, FULL_LINE = 50 };
/* A full stop after a word or number of fewer bytes ends no sentence: "Mr.", "Gov.", "p.m."; "17. November". */
enum { ABBREVIATION = 4, ORDINAL = 3 };
/* A sentence mark may follow the last word and its quotes and brackets. */
enum { MARK_DISTANCE = 4 };
enum { BLOCK = 64 }; /* marks count up to the end of the block of the last one that may follow a word */

/* Whether the lines of text[:stop] are wrapped. */
static bool is_wrapped(const uint8_t *text, int64_t stop, const int32_t *marks, int64_t mark_count) {
    int64_t start = 0, lines = 0, full = 0;
    for (int64_t k = 0; k < mark_count; k++) {
        if (text[marks[2 * k]] != '\n') continue;
        int64_t length = marks[2 * k] - start;
        if (length > LONGEST_LINE) return false;
        lines++;
        full += length >= FULL_LINE;
        start = marks[2 * k] + 1;
    }
    return stop - start <= LONGEST_LINE && lines + 1 >= WRAPPED_LINES && 2 * full >= lines;
}

/* Whether the full stop at `at`, behind `token`, ends a sentence. */
static bool ends_sentence(const token_list *tokens, int64_t token, int64_t at) {
    uint8_t following = tokens->text[at + 1];
    /* inside a number, a name or an address */
    if (following >= 0x80 || (following >= 'a' && following <= 'z') || is_digit(following)) return false;
    int64_t start = tokens->places[2 * token - 2], end = tokens->places[2 * token - 1];
    bool is_short = end == at && end - start < (is_digit(tokens->text[start]) ? ORDINAL : ABBREVIATION);
    return !is_short || token == tokens->count || following == '\n'; /* a short word may end the text or a line */
}

/* Whether a token is of an Indic script, U+0900 to U+0D7F: there "|" stands for the danda, which it looks like. */
static bool is_indic(const token_list *tokens, int64_t token) {
    const uint8_t *start = tokens->text + tokens->places[2 * token];
    return start[0] == 0xE0 && start[1] >= 0xA4 && start[1] <= 0xB5;
}

/* Whether most tokens are Thai or Lao, U+0E00 to U+0EFF: these scripts have no sentence mark. */
static bool is_without_marks(const token_list *tokens) {
    int64_t found = 0;
    if (!tokens->has_characters || !memchr(tokens->text, 0xE0, (size_t)tokens->size)) return false;
    for (int64_t i = 0; i < tokens->count; i++) {
        const uint8_t *start = tokens->text + tokens->places[2 * i];
        found += start[0] == 0xE0 && start[1] >= 0xB8 && start[1] <= 0xBB;
    }
    return 2 * found > tokens->count;
}

/* Find the ends of the lines and sentences of a text. */
void split_sentences(const token_list *tokens, sentence_list *sentences) {
    const uint8_t *text = tokens->text;
    const int32_t *places = tokens->places, *marks = tokens->marks;
    int32_t *ends = sentences->ends;
    int64_t count = tokens->count, n = 0;
    sentences->count = 0;
    if (!count) return;
    int64_t stop = places[2 * count - 1] + MARK_DISTANCE, mark_count = tokens->mark_count;
    while (mark_count && marks[2 * mark_count - 2] >= (stop + BLOCK - 1) / BLOCK * BLOCK) mark_count--;
    bool wrapped = is_wrapped(text, stop, marks, mark_count);
    for (int64_t k = 0; k < mark_count && marks[2 * k] < stop; k++) {
        int64_t at = marks[2 * k], token = marks[2 * k + 1];
        if (wrapped && text[at] == '\n' && text[at + 1] > ' ') continue;
        if (!token || (n && ends[n - 1] == token)) continue;
        if (text[at] == '.' && !ends_sentence(tokens, token, at)) continue;
        if (text[at] == '|' && !is_indic(tokens, token - 1)) continue;
        ends[n] = (int32_t)token;
        sentences->is_sentence[n++] = text[at] != '\n';
    }
    if (!n || ends[n - 1] < count) {
        ends[n] = (int32_t)count;
        sentences->is_sentence[n++] = false;
    }
    sentences->count = n;
}

/* Length of tokens: two units a word, one a character, of which most have three bytes. */
static int64_t length_of(const token_list *tokens, int64_t start, int64_t end) {
    int64_t length = 2 * (end - start);
    if (!tokens->has_characters) return length;
    for (int64_t i = start; i < end; i++)
        length += tokens->kinds[i] ? (tokens->places[2 * i + 1] - tokens->places[2 * i]) / 3 - 2 : 0;
    return length;
}

/* Whether enough sentences of a text end in marks. */
static bool has_enough_marks(const token_list *tokens, const sentence_list *sentences) {
    int64_t marked = 0, start = 0;
    for (int64_t k = 0; k < sentences->count; start = sentences->ends[k++])
        if (sentences->is_sentence[k]) marked += sentences->ends[k] - start;
    return marked * MARKED_SHARE > tokens->count;
}

/* Whether a bracket opens before a token. A whole sentence in brackets is an aside: a credit, a reference. */
static bool is_in_brackets(const token_list *tokens, int64_t token) {
    int64_t at = tokens->places[2 * token];
    return at > 0 && (tokens->text[at - 1] == '(' || tokens->text[at - 1] == '[');
}

/* Write the passages of a text and return their number, at most one a token.
 *
 * words: of each token; units: what its shingles are made of, `width` long. first_token, first_shingle: of this text
 * among those of the batch. */
int64_t cut_passages(const token_list *tokens, const uint32_t *words, const unit_list *units, int64_t width,
                     const sentence_list *sentences, int64_t first_token, int64_t first_shingle, passage *out) {
    const int32_t *starts = units->starts;
    int64_t found = 0, begin = 0;
    bool is_unmarked = is_without_marks(tokens), has_marks = !is_unmarked && has_enough_marks(tokens, sentences);
    for (int64_t k = 0; k < sentences->count; k++) {
        int64_t end = sentences->ends[k], least = sentences->is_sentence[k] ? LEAST_SENTENCE : LEAST_LINE;
        bool is_prose = sentences->is_sentence[k] || !has_marks;
        int64_t length = length_of(tokens, begin, end);
        is_prose = is_prose && length >= least;
        bool is_sentence = sentences->is_sentence[k] || (is_unmarked && length >= LEAST_UNMARKED);
        is_sentence = is_sentence && !is_in_brackets(tokens, begin);
        int64_t stop = (starts ? starts[end] : end) - width + 1; /* the first shingle that leaves it */
        while (begin < end) {
            int64_t until = min_i64(begin + PASSAGE_TOKENS, end);
            if (end - until < PASSAGE_TOKENS / 2) until = end; /* a short rest joins the passage before it */
            uint64_t hash = (uint64_t)(until - begin), sum = hash * (hash - 1) / 2 * GOLDEN;
            for (int64_t i = begin; i < until; i++) sum += words[i]; /* in any order */
            hash += sum * MIX_1;
            int64_t first = starts ? starts[begin] : begin, last = starts ? starts[until] : until;
            out[found++] = (passage){
                .end = first_token + until,
                .first_shingle = first_shingle + first,
                .last_shingle = first_shingle + max_i64(min_i64(last, stop), first),
                .hash = narrowed(mix(hash)),
                .is_prose = is_prose,
                .is_last = until == end,
                .is_marked = is_sentence,
            };
            begin = until;
        }
    }
    return found;
}

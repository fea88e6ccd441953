/* Align the words of a new item with those of a known one: which are known, which replace others, which are new.
 *
 * An item's words are kept as a sequence of 16-bit codes (sequences.c). Runs of four equal codes anchor the alignment,
 * as in patience and histogram diff; they are extended in both directions, and what lies between two of them is
 * aligned by the longest common subsequence. So a moved paragraph counts as known, and a replaced word shows what it
 * replaced.
 *
 * Cost: O(words of both). A gram is looked up in at most MOST_CHAIN places, and a gap is aligned only if it is short, so
 * that a text that was made to repeat itself costs as much as any other. What is not found then counts as new: in doubt
 * an item is let through. A chain has a length that a writer can choose, so no secret is needed.
 *
 * Sources: longest common subsequence, Wagner, Fischer 1974; anchors that both sides share, Cohen's patience diff.
 */
#include "core.h"

enum {
    GRAM = 4,        /* codes of an anchor: one 64-bit word */
    MOST_CHAIN = 8,  /* places of a gram that are tried */
    MOST_GAP = 40,   /* codes of a gap, on each side, that is aligned: more is another text */
    MOVED = 8,       /* codes of a run that may have moved: fewer may stand elsewhere by chance */
    MOST_RUNS = 32,  /* shorter runs in a row that are put in order */
    FLANK = 3,       /* known words on each side of what is replaced: else it is a dateline or another sentence */
    LEAD = 64,       /* words of the first sentence in which those of the headline are looked for */
    DATELINE = 8,    /* words of a dateline with a city, a country, agencies and a day */
    MOST_REPLACED = 5, /* words from the first to the last that was replaced: more is another clause */
    MOST_LOST = 80,  /* known words in the place of new ones: more is another paragraph */
    FEW_WORDS = 3,   /* of a short sentence: fewer are "More soon.", "(Reuters)." */
    FEW_SAID = 2,    /* words of the new headline: one may be in any sentence */
    FEW_CHANGED = 3, /* words of a headline that denies the known one: "passes", "does not pass" */
};

/* A place of the own text, and the first place of the headline that has its code. */
typedef struct said {
    int16_t place, of_headline;
} said;

struct diff {
    uint16_t *own, *known;       /* codes, with GRAM zeros behind them */
    int64_t own_count, known_count, own_headline, known_headline;
    int16_t *heads, *next;       /* positions of the own grams by hash */
    int64_t bits;
    uint8_t *grams;              /* bits of the own grams, 8 a head: few of another text are found by chance */
    int32_t *partners;           /* of each own code: its place in `known`, or NONE; behind them `known_count` */
    int32_t *is_used;            /* of each known code: whether it has a partner; a byte could change any pointer here */
    uint64_t headline;           /* a bit for each code of the own headline, at its first place */
    uint64_t new_headline;       /* those that the known headline has not */
    said *said;                  /* where the own text has a code of its headline, and a last one behind it */
    int16_t *next_said;          /* of each own place: the first of `said` that is not before it */
    uint8_t *known_words;        /* of each word, see `word_of`: `stamp` if it is known */
    uint8_t stamp;               /* another one for each known item, so that `known_words` is seldom cleared */
    uint8_t *states;             /* of each own code */
    int16_t *matched_before;     /* of each own code, and behind them: how many before it have a partner */
    uint8_t *lengths;            /* scratch of the gaps: (MOST_GAP + 1)^2 */
};

enum { WORDS = STEMS + CODES - FIGURE_CODES, GAP_CELLS = (MOST_GAP + 1) * (MOST_GAP + 1) };

static inline uint64_t gram_at(const uint16_t *codes, int64_t place) {
    uint64_t gram;
    memcpy(&gram, codes + place, sizeof gram);
    return gram;
}

/* The stem of a word, or behind all stems a figure or negation. Without a branch: `stem` is less from FIGURE_CODES on. */
static inline int32_t word_of(uint16_t code) {
    int32_t stem = code >> STEM_SHIFT, other = code - FIGURE_CODES + STEMS;
    return stem > other ? stem : other;
}

/* The bit of a gram in `grams`; its head has the number of the byte. */
static inline int64_t bit_of_gram(const diff *work, uint64_t gram) { return (int64_t)(gram * GOLDEN >> (61 - work->bits)); }

diff *take_diff(arena *scratch) {
    diff *work = arena_take(scratch, 1, sizeof *work);
    if (!work) return NULL;
    int64_t codes = MOST_SEQUENCE + HEADLINE_CODES;
    *work = (diff){.own_count = 0};
    work->own = arena_take(scratch, codes + GRAM, sizeof *work->own);
    work->known = arena_take(scratch, codes + GRAM, sizeof *work->known);
    work->heads = arena_take(scratch, 4 * MOST_SEQUENCE, sizeof *work->heads);
    work->grams = arena_take(scratch, 4 * MOST_SEQUENCE, 1);
    work->said = arena_take(scratch, codes + 1, sizeof *work->said);
    work->next_said = arena_take(scratch, codes + 1, sizeof *work->next_said);
    work->next = arena_take(scratch, codes, sizeof *work->next);
    work->partners = arena_take(scratch, codes + GRAM, sizeof *work->partners);
    work->is_used = arena_take(scratch, codes, sizeof *work->is_used);
    work->known_words = arena_take(scratch, WORDS, sizeof *work->known_words);
    work->states = arena_take(scratch, codes, 1);
    work->matched_before = arena_take(scratch, codes + 1, sizeof *work->matched_before);
    work->lengths = arena_take(scratch, GAP_CELLS, 1);
    if (arena_has_failed(scratch)) return NULL;
    memset(work->known_words, 0, WORDS);
    return work;
}

/* Copy the codes of a body, which may lie at any address. Returns their number. */
static int64_t take_codes(sequence from, uint16_t *to) {
    memcpy(to, from.bytes, (size_t)from.count * sizeof *to);
    memset(to + from.count, 0, GRAM * sizeof *to);
    return from.count;
}

/* The first place of the own headline with a code, or its end. */
static int64_t place_in_headline(const diff *work, uint16_t code) {
    int64_t place = 0;
    while (place < work->own_headline && work->own[place] != code) place++;
    return place;
}

/* Find the words of the headline in the text. */
static void find_said(diff *work) {
    uint64_t mask[4] = {0}; /* bits of the lowest eight bits of the headline's codes */
    const uint16_t *own = work->own;
    int16_t count = 0;
    for (int64_t k = 0; k < work->own_headline; k++) mask[own[k] >> 6 & 3] |= 1ull << (own[k] & 63);
    for (int64_t i = work->own_headline; i < work->own_count; i++) {
        work->next_said[i] = count;
        if (!(mask[own[i] >> 6 & 3] >> (own[i] & 63) & 1)) continue;
        work->said[count] = (said){(int16_t)i, (int16_t)place_in_headline(work, own[i])};
        count += work->said[count].of_headline < work->own_headline;
    }
    work->next_said[work->own_count] = count;
    work->said[count].place = (int16_t)work->own_count;
}

bool begin_diff(diff *work, const view *own, int64_t tokens) {
    sequence codes = sequence_of(own);
    work->own_count = codes.count;
    work->own_headline = codes.headline;
    if (codes.count == 0 || codes.count - codes.headline != tokens) return false; /* none, or of another text */
    take_codes(codes, work->own);
    work->headline = 0;
    for (int64_t k = 0; k < codes.headline; k++) work->headline |= 1ull << place_in_headline(work, work->own[k]);
    find_said(work);
    for (work->bits = 6; 1 << work->bits < 2 * codes.count;) work->bits++;
    memset(work->heads, NONE, sizeof *work->heads << work->bits);
    memset(work->grams, 0, 1u << work->bits);
    for (int64_t i = codes.count - GRAM; i >= codes.headline; i--) { /* backwards: the first place leads its chain */
        int64_t bit = bit_of_gram(work, gram_at(work->own, i));
        int16_t *head = work->heads + bit / 8;
        set_bit(work->grams, bit);
        work->next[i] = *head;
        *head = (int16_t)i;
    }
    return true;
}

static void pair_up(diff *work, int64_t own, int64_t known) {
    work->partners[own] = (int32_t)known;
    work->is_used[known] = true;
}

/* The first known place from j on whose gram may stand in the new text: most stand there nowhere. */
static int64_t next_gram(const diff *work, int64_t j, int64_t end) {
    const uint16_t *known = work->known;
    for (; j + 3 + GRAM <= end; j += 4) {
        bool is_found = false;
        for (int k = 0; k < 4; k++) is_found |= has_bit(work->grams, bit_of_gram(work, gram_at(known, j + k)));
        if (is_found) break;
    }
    return j;
}

/* Where the gram of a known place stands in the new text, without a partner yet: preferably at `expected`; or NONE. */
static int64_t place_of_gram(const diff *work, uint64_t gram, int64_t expected) {
    int64_t bit = bit_of_gram(work, gram), tried = 0;
    if (!has_bit(work->grams, bit)) return NONE;
    if (expected + GRAM <= work->own_count && work->partners[expected] == NONE && gram_at(work->own, expected) == gram)
        return expected;
    for (int64_t i = work->heads[bit / 8]; i != NONE && tried < MOST_CHAIN; i = work->next[i], tried++)
        if (work->partners[i] == NONE && gram_at(work->own, i) == gram) return i;
    return NONE;
}

/* Pair all runs of equal codes that contain an anchor in known[begin:end]; return whether there is one. */
static bool pair_runs(diff *work, int64_t begin, int64_t end) {
    int64_t expected = work->own_headline;
    bool is_found = false;
    for (int64_t j = next_gram(work, begin, end); j + GRAM <= end;) {
        int64_t i = place_of_gram(work, gram_at(work->known, j), expected);
        if (i == NONE) {
            j = next_gram(work, j + 1, end);
            continue;
        }
        for (int64_t back = 1; i - back >= work->own_headline && j - back >= begin; back++) {
            bool is_equal = work->own[i - back] == work->known[j - back];
            if (!is_equal || work->partners[i - back] != NONE || work->is_used[j - back]) break;
            pair_up(work, i - back, j - back);
        }
        for (; i < work->own_count && j < end; i++, j++) {
            if (work->own[i] != work->known[j] || work->partners[i] != NONE) break;
            pair_up(work, i, j);
        }
        expected = i;
        is_found = true;
    }
    return is_found;
}

/* The first place from i on that has a partner, or the end: most places have none. */
static int64_t next_paired(const diff *work, int64_t i) {
    const int32_t *partners = work->partners;
    while ((partners[i] & partners[i + 1] & partners[i + 2] & partners[i + 3]) == NONE) i += 4;
    while (partners[i] == NONE) i++;
    return i;
}

/* Where the run of own[i:] ends, i having a partner: consecutive codes with consecutive partners. */
static int64_t end_of_run(const diff *work, int64_t i) {
    int64_t end = i + 1;
    while (end < work->own_count && work->partners[end] == work->partners[end - 1] + 1) end++;
    return end;
}

/* Take a run apart if it has a figure. Other words in a row may well have moved. */
static void unpair_figures(diff *work, int64_t begin, int64_t end) {
    bool has_figure = false;
    for (int64_t i = begin; i < end; i++) has_figure |= is_figure(work->own[i]);
    for (int64_t i = begin; i < end && has_figure; i++) {
        work->is_used[work->partners[i]] = false;
        work->partners[i] = NONE;
    }
}

/* Keep those runs of own[begin:end] that lie in known[known_begin:known_end] and follow each other there, most words in
 * all; take others with figures apart. O(MOST_RUNS) for each run: beyond MOST_RUNS, which is another text, the others stay. */
static void keep_order(diff *work, int64_t begin, int64_t end, int64_t known_begin, int64_t known_end) {
    struct run { int64_t begin, end, words, before; } runs[MOST_RUNS]; /* words: of the best row that ends with it */
    int64_t count = 0, best = NONE;
    for (int64_t i = next_paired(work, begin), stop; i < end && count < MOST_RUNS; i = next_paired(work, stop)) {
        int64_t partner = work->partners[i];
        stop = end_of_run(work, i);
        if (partner < known_begin || partner >= known_end) {
            unpair_figures(work, i, stop);
            continue;
        }
        struct run run = {i, stop, 0, NONE};
        for (int64_t k = 0; k < count; k++) {
            if (work->partners[runs[k].begin] > partner || runs[k].words <= run.words) continue;
            run.words = runs[k].words;
            run.before = k;
        }
        run.words += stop - i;
        if (best == NONE || run.words > runs[best].words) best = count;
        runs[count++] = run;
    }
    for (int64_t k = count - 1; k >= 0; k--) {
        if (k == best) best = runs[k].before;
        else unpair_figures(work, runs[k].begin, runs[k].end);
    }
}

/* Keep figures in order in the short runs between two long ones that follow each other in both texts: "30 degrees in the"
 * stands elsewhere by chance, and would hide that it stands in the place of "20 degrees in the". Long runs may have
 * moved. */
static void keep_short_runs_in_order(diff *work) {
    int64_t behind = work->own_headline, known_begin = work->known_headline;
    for (int64_t i = next_paired(work, behind), end; i < work->own_count; i = next_paired(work, end)) {
        end = end_of_run(work, i);
        if (end - i < MOVED) continue;
        if (known_begin <= work->partners[i]) keep_order(work, behind, i, known_begin, work->partners[i]);
        behind = end;
        known_begin = work->partners[end - 1] + 1;
    }
    keep_order(work, behind, work->own_count, known_begin, work->known_count);
}

/* Align a short gap by its longest common subsequence, own[a:a + m] and known[b:b + n]. Where as many words stand in the
 * place of others, a figure has its place: "5 to 11" is not "11 to 5". O(m n). */
static void align(diff *work, int64_t a, int64_t m, int64_t b, int64_t n) {
    uint8_t *lengths = work->lengths; /* of the rests: (m + 1, n + 1) */
    int64_t width = n + 1;
    memset(lengths, 0, (size_t)((m + 1) * width));
    for (int64_t i = m - 1; i >= 0; i--) {
        bool is_placed = m == n && is_figure(work->own[a + i]);
        uint16_t is_there = 0;
        for (int64_t j = 0; j < n; j++) is_there |= work->known[b + j] == work->own[a + i];
        if (!is_there) memcpy(lengths + i * width, lengths + (i + 1) * width, (size_t)n);
        for (int64_t j = n - 1; j >= 0 && is_there; j--) {
            uint8_t without = lengths[(i + 1) * width + j], other = lengths[i * width + j + 1];
            bool is_equal = work->own[a + i] == work->known[b + j] && !work->is_used[b + j] && (!is_placed || i == j);
            uint8_t best = without > other ? without : other;
            uint8_t with = (uint8_t)(lengths[(i + 1) * width + j + 1] + 1);
            lengths[i * width + j] = is_equal && with > best ? with : best;
        }
    }
    for (int64_t i = 0, j = 0; i < m && j < n;) {
        uint8_t here = lengths[i * width + j];
        if (here == lengths[(i + 1) * width + j]) i++;
        else if (here == lengths[i * width + j + 1]) j++;
        else pair_up(work, a + i++, b + j++);
    }
}

/* Align the short gaps between paired runs, and those between them and the ends of both texts. */
static void pair_gaps(diff *work) {
    int64_t a = work->own_headline, b = work->known_headline;
    for (int64_t i = a; a <= work->own_count; a = i + 1) {
        i = next_paired(work, a);
        int64_t known_end = work->partners[i];
        bool is_gap = known_end > b && i > a;
        if (is_gap && i - a <= MOST_GAP && known_end - b <= MOST_GAP) align(work, a, i - a, b, known_end - b);
        b = known_end + 1;
    }
}

/* Find the state of each token of the new text, without a branch, and count those with a partner. */
static void find_states(diff *work) {
    uint8_t *restrict known_words = work->known_words, *restrict states = work->states, stamp = ++work->stamp;
    const uint16_t *own = work->own, *known = work->known;
    const int32_t *partners = work->partners;
    int16_t *before = work->matched_before, matched = 0;
    if (!stamp) {
        memset(known_words, 0, WORDS);
        stamp = work->stamp = 1;
    }
    for (int64_t j = 0, count = work->known_count; j < count; j++) known_words[word_of(known[j])] = stamp;
    for (int64_t i = work->own_headline, count = work->own_count; i < count; i++) {
        int is_matched = partners[i] != NONE, is_new = known_words[word_of(own[i])] != stamp;
        states[i] = (uint8_t)(is_matched * IS_MATCHED | (is_new & !is_matched) * HAS_NONE);
        before[i] = matched;
        matched = (int16_t)(matched + is_matched);
    }
    before[work->own_count] = matched;
}

/* How many of own[first:last] have no partner. */
static inline int64_t unmatched_in(const diff *work, int64_t first, int64_t last) {
    return last - first - (work->matched_before[last] - work->matched_before[first]);
}

/* Take what the new headline has, and the known one has not. */
static void take_headline(diff *work) {
    work->new_headline = work->headline;
    for (int64_t k = 0; k < work->own_headline; k++) {
        bool is_known = false;
        for (int64_t j = 0; j < work->known_headline; j++) is_known |= work->known[j] == work->own[k];
        work->new_headline &= ~((uint64_t)is_known << k);
    }
}

bool diff_with(diff *work, const view *known) {
    sequence codes = sequence_of(known);
    if (known->is_old || !codes.count) return false;
    work->known_count = take_codes(codes, work->known);
    work->known_headline = codes.headline;
    take_headline(work);
    memset(work->partners, NONE, (size_t)work->own_count * sizeof *work->partners);
    work->partners[work->own_count] = (int32_t)work->known_count;
    memset(work->is_used, 0, (size_t)work->known_count * sizeof *work->is_used);
    /* Texts without a common run have nothing in common, whatever they have of a headline. */
    if (pair_runs(work, work->known_headline, work->known_count)) {
        keep_short_runs_in_order(work);
        pair_runs(work, 0, work->known_headline); /* what it alone has; else a lead would be torn between the two */
        pair_gaps(work);
    }
    find_states(work);
    return true;
}

/* ---- what the sentences of the new item are ---- */

const uint8_t *states_of(const diff *work) { return work->states + work->own_headline; }

bool has_new_headline(const diff *work) {
    bool is_new = false;
    for (int64_t k = 0; k < work->own_headline; k++) is_new |= work->known_words[word_of(work->own[k])] != work->stamp;
    return is_new;
}

bool denies_headline(const diff *work) {
    bool is_denied = false;
    for (int64_t k = 0; k < work->own_headline; k++) is_denied ^= is_negation(work->own[k]);
    for (int64_t k = 0; k < work->known_headline; k++) is_denied ^= is_negation(work->known[k]);
    return is_denied && work->known_headline >= FLANK && bit_count(work->new_headline) <= FEW_CHANGED;
}

/* Whether the new headline has a code, and the known one has not. */
static bool is_of_headline(const diff *work, uint16_t code) {
    int64_t place = place_in_headline(work, code);
    return place < work->own_headline && work->new_headline >> place & 1;
}

/* Whether the FLANK codes before or behind a place have partners, and these lie beside each other. */
static bool is_flank(const diff *work, int64_t place, int64_t step) {
    for (int64_t k = 0; k < FLANK; k++, place += step) {
        if (place < work->own_headline || place >= work->own_count || work->partners[place] == NONE) return false;
        if (k && work->partners[place] != work->partners[place - step] + step) return false;
    }
    return true;
}

/* Whether a new word of own[begin:end] has the stem of a lost one of known[known_begin:known_end]: another ending. */
static bool is_restyled(const diff *work, int64_t begin, int64_t end, int64_t known_begin, int64_t known_end) {
    for (int64_t i = begin; i < end; i++) {
        if (work->partners[i] != NONE || work->own[i] >= FIGURE_CODES) continue;
        for (int64_t j = known_begin; j < known_end; j++)
            if (!work->is_used[j] && work->own[i] >> STEM_SHIFT == work->known[j] >> STEM_SHIFT) return true;
    }
    return false;
}

/* Add what a few words in the place of a few others say: own[begin:end] between words that are known on both sides. At
 * an end of the text one side is enough for a figure or negation behind a known word, for a word of the new headline
 * that stands in the place of as many others, for one of the first words in the place of one, and for a figure in the
 * place of another; other words are a dateline or a credit. */
static void add_replacement(const diff *work, int64_t begin, int64_t end, differences *found) {
    bool before = is_flank(work, begin - 1, -1), behind = is_flank(work, end, 1), is_flanked = before && behind;
    bool is_edge = (behind && begin - work->own_headline < FLANK) || (before && work->own_count - end < FLANK);
    if (!is_flanked && !is_edge) return;
    int64_t known_begin = begin > work->own_headline ? work->partners[begin - 1] : NONE;
    int64_t known_end = end < work->own_count ? work->partners[end] : NONE;
    if (known_begin == NONE && known_end == NONE) return;
    if (known_begin == NONE) known_begin = max_i64(known_end - (end - begin), work->known_headline);
    else known_begin++;
    if (known_end == NONE) known_end = min_i64(known_begin + (end - begin), work->known_count);
    int64_t own = 0, lost = 0, figures = 0, lost_figures = 0, of_headline = 0;
    if (known_end < known_begin || known_end - known_begin > MOST_REPLACED) return;
    bool is_denied = false;
    for (int64_t i = begin; i < end; i++) {
        if (work->partners[i] != NONE || work->own[i] == FURTHER_GROUP) continue;
        own++;
        is_denied ^= is_negation(work->own[i]);
        figures += is_figure(work->own[i]);
        of_headline += is_of_headline(work, work->own[i]);
    }
    for (int64_t j = known_begin; j < known_end; j++) {
        if (work->is_used[j] || work->known[j] == FURTHER_GROUP) continue;
        lost++;
        is_denied ^= is_negation(work->known[j]);
        lost_figures += is_figure(work->known[j]);
    }
    bool is_inside = begin > work->own_headline && end < work->own_count;
    bool is_first = !before && known_begin - work->known_headline == begin - work->own_headline;
    bool is_one = own == 1 && lost == 1 && (is_first || (figures && lost_figures));
    if (!is_flanked && !of_headline && !is_one && !(is_inside && (figures || is_denied))) return;
    found->of_headline += of_headline;
    if (is_denied) found->facts++;
    /* One figure for another; a number that is written otherwise has more words or fewer. One of two that changed places
     * came in. */
    else if (figures && ((own == lost && lost_figures == figures) || (own == 1 && !lost))) found->facts += figures;
    else if (own && lost && !figures && !lost_figures && !is_restyled(work, begin, end, known_begin, known_end))
        found->altered += own;
}

/* Add what is replaced in the part own[begin:end] of a known sentence. Two places between which there are too few words
 * to flank them are one: "20 of the 47". */
static void add_alterations(const diff *work, int64_t begin, int64_t end, differences *found) {
    for (int64_t i = begin; i < end; i++) {
        int64_t stop = i; /* behind the last word without a partner that follows */
        if (work->partners[i] != NONE) { /* between two words that are known, others may have been lost */
            if (i > begin && work->partners[i] > work->partners[i - 1] + 1) add_replacement(work, i, i, found);
            continue;
        }
        for (int64_t k = i; k < end && k < stop + FLANK; k++)
            if (work->partners[k] == NONE) stop = k + 1;
        if (stop - i <= MOST_REPLACED) add_replacement(work, i, stop, found);
        i = stop - 1;
    }
}

/* Count the words that only the new headline says, and that stand without a partner in own[first:last]. */
static int64_t words_said(const diff *work, int64_t first, int64_t last) {
    uint64_t found = 0;
    for (const said *at = work->said + work->next_said[first]; at->place < last; at++)
        found |= (uint64_t)(work->partners[at->place] == NONE) << at->of_headline;
    return bit_count(found & work->new_headline);
}

bool says_headline(const diff *work, int64_t begin, int64_t end) {
    return words_said(work, work->own_headline + begin, work->own_headline + end) >= FEW_SAID;
}

/* The first sentence of prose says what is new, if its headline does; else it may be the old one behind a dateline. */
static void add_lead(const diff *work, int64_t first, int64_t last, int64_t unmatched, differences *found) {
    found->has_lead = true;
    found->rest -= unmatched;
    found->said = words_said(work, first, min_i64(last, first + LEAD));
    int64_t start = first;
    while (start < last && work->partners[start] == NONE) start++;
    bool is_dateline = start - first == unmatched && unmatched <= DATELINE;
    found->lead = is_dateline ? 0 : unmatched;
}

/* Whether a new line is one more row of a list: the line before it has as many figures, and in the known text it is
 * followed by what follows here. A caption or the value of another photo stands in the place of another. */
static bool is_row(const diff *work, int64_t first, int64_t last, int64_t figures, const differences *found) {
    if (!figures || figures != found->row_figures || work->partners[first - 1] == NONE) return false;
    int64_t end = min_i64(last + LEAD, work->own_count);
    while (last < end && work->partners[last] == NONE) last++; /* other new rows */
    int64_t next = last < work->own_count ? work->partners[last] : work->known_count;
    return next == work->partners[first - 1] + 1;
}

/* Close the gap before a run of FLANK known words: what stands in it was put in, or stands in the place of other words. */
static void close_gap(differences *found, int64_t gap, int64_t lost, bool is_lead) {
    if (found->known_end == NONE || !gap || lost < 0 || lost > MOST_LOST) return;
    found->places++;
    if (!is_lead && gap >= FEW_WORDS) found->rewritten += gap;
}

/* Add what stands between words that are known on both sides, whatever sentences it is in. */
static void add_gaps(const diff *work, int64_t first, int64_t last, bool is_sentence, bool is_first, differences *found) {
    const int32_t *partners = work->partners;
    if (found->next != first) { /* the first sentence, or one behind another that recurs elsewhere */
        found->known_end = NONE;
        found->gap = found->run = 0;
    }
    found->next = last;
    int64_t gap = found->gap, run = found->run; /* in memory, each word would wait for the one before it */
    bool is_lead = found->is_lead;
    for (int64_t i = first; i < last; i++) {
        if (partners[i] == NONE) {
            int64_t end = unmatched_in(work, i, last) == last - i ? last : next_paired(work, i);
            for (; is_sentence && i < end; i++) gap += work->own[i] != FURTHER_GROUP;
            is_lead |= is_sentence & is_first;
            run = 0;
            i = end - 1;
            continue;
        }
        bool goes_on = run && partners[i] == partners[i - 1] + 1;
        run = goes_on ? run + 1 : 1;
        if (!goes_on) found->run_start = partners[i];
        while (run >= FLANK && i + 1 < last && partners[i + 1] == partners[i] + 1) i++;
        if (run == FLANK) {
            close_gap(found, gap, found->run_start - found->known_end, is_lead);
            gap = 0;
            is_lead = false;
        }
        if (run >= FLANK) found->known_end = partners[i] + 1;
    }
    found->gap = gap;
    found->run = run;
    found->is_lead = is_lead;
}

void add_sentence(const diff *work, int64_t begin, int64_t end, bool is_prose, bool is_marked, differences *found) {
    int64_t first = work->own_headline + begin, last = work->own_headline + end, figures = 0;
    int64_t unmatched = unmatched_in(work, first, last);
    bool is_sentence = is_prose || is_marked;
    for (int64_t i = first; i < last && !is_sentence; i++) figures += is_figure(work->own[i]);
    bool is_new = 2 * unmatched >= last - first;
    add_gaps(work, first, last, is_sentence, !found->has_lead, found);
    found->matched += last - first - unmatched;
    found->tokens += last - first;
    found->rest += unmatched;
    if (is_prose && !found->has_lead) add_lead(work, first, last, unmatched, found);
    if (is_prose && is_new) {
        found->fresh += unmatched;
        if (found->has_known) found->new_since += unmatched;
    } else if (is_sentence && !is_new) {
        add_alterations(work, first, last, found);
    }
    if (is_new && is_sentence) found->told = max_i64(found->told, words_said(work, first, last));
    bool is_brief = is_marked && !is_prose && found->is_behind_known && unmatched >= FEW_WORDS;
    if (is_new && (is_brief || (!is_sentence && is_row(work, first, last, figures, found)))) found->brief += unmatched;
    found->row_figures = is_new ? 0 : figures;
    found->is_behind_known = unmatched == 0 || (is_sentence && !is_new);
    if (found->is_behind_known) {
        found->inserted += found->new_since;
        found->new_since = 0;
        found->has_known = true;
    }
}

/* ---- the alignment, for people ---- */

/* Align the item of one body with that of another. partners: of each of its codes, headline first, the place among the
 * other's codes, or NONE; headlines have none. Returns the number of its codes, 0 if one of the two has no sequence. */
CORE_API int64_t align_bodies(arena *scratch, const uint8_t *own, int64_t own_bytes, const uint8_t *known,
                              int64_t known_bytes, int32_t *partners) {
    arena_reset(scratch);
    view new = {NULL, own, own_bytes, false}, old = {NULL, known, known_bytes, false};
    sequence codes = sequence_of(&new);
    diff *work = take_diff(scratch);
    if (!work) return CORE_NO_MEMORY;
    if (!begin_diff(work, &new, codes.count - codes.headline) || !diff_with(work, &old)) return 0;
    memcpy(partners, work->partners, (size_t)codes.count * sizeof *partners);
    return codes.count;
}

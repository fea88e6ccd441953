/* The compiled core: every struct and function that its files share.
 *
 * Files follow the path of an item: text.c folds and tokenises, sentences.c cuts passages, words.c finds words and
 * numbers, shingles.c makes sketches and keys, sets.c packs sets, sequences.c keeps the order of words, fingerprint.c
 * calls them for a batch; index.c looks keys up, candidates.c chooses earlier items, similarity.c, novelty.c and diff.c
 * compare two items, rule.c says what that means, judge.c decides. clocks.c finds times, boilerplate.c counts passages,
 * pairs.c compares whole sets.
 *
 * Rules. A function gets pointers with lengths and keeps nothing: no global state. Scratch memory comes from an `arena`
 * that the caller owns. A function that Python calls is marked CORE_API; it returns a count, or a negative
 * `core_error`. Machines are little-endian. A record that is stored (a row of SIMILARITY, of SUBJECT) has the layout of
 * numpy's aligned dtype of the same name. A constant that Python needs, too, has the same name there, perhaps after an
 * underscore. tests/core/test_layout.py compares layouts and constants.
 */
#ifndef CORE_H
#define CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CORE_API __attribute__((visibility("default")))
#define HOUR 3600000 /* ms */

/* ---- errors ---- */

typedef enum {
    CORE_NO_MEMORY = -1, /* the arena could not grow */
    CORE_BAD_SIZE = -2,  /* a size or position from outside does not fit its array */
} core_error;

/* ---- memory (memory.c) ---- */

/* Scratch memory of one thread. What a function takes lives until the exported function that took it returns. */
typedef struct arena arena;

/* secret: random, and known to nobody else; of the hash tables that lie in the arena. */
CORE_API arena *arena_new(uint64_t secret);
CORE_API void arena_free(arena *scratch);
/* Begin an exported function: all that was taken before is free again. */
void arena_reset(arena *scratch);
/* `count` items of `size` bytes, aligned to 64 bytes and not cleared; NULL if there is no memory. */
void *arena_take(arena *scratch, int64_t count, size_t size);
/* Whether something that was taken since the last reset is NULL: one check after several takes. */
bool arena_has_failed(const arena *scratch);
/* The array, or a copy of its first `used` elements with room for at least `more`; NULL if there is no memory. */
void *arena_grow(arena *scratch, void *array, int64_t *room, int64_t used, int64_t more, size_t size);
uint64_t arena_secret(const arena *scratch);

/* ---- bits ---- */

#define GOLDEN 0x9E3779B97F4A7C15ull /* 2^64 divided by the golden ratio: Knuth, volume 3, section 6.4 */
#define MIX_1 0xFF51AFD7ED558CCDull  /* the multipliers of MurmurHash3's finaliser, Appleby 2011 */
#define MIX_2 0xC4CEB9FE1A85EC53ull
#define FNV_PRIME 0x100000001B3ull /* FNV-1a: Fowler, Noll, Vo */

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* MurmurHash3's 64-bit finaliser: every input bit affects every output bit. */
static inline uint64_t mix(uint64_t hash) {
    hash = (hash ^ (hash >> 33)) * MIX_1;
    hash = (hash ^ (hash >> 33)) * MIX_2;
    return hash ^ (hash >> 33);
}

/* The upper half of a hash, never 0. */
static inline uint32_t narrowed(uint64_t hash) {
    uint32_t upper = (uint32_t)(hash >> 32);
    return upper ? upper : 1;
}

/* Eight bytes from any address, the first byte lowest. */
static inline uint64_t load64(const uint8_t *from) {
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

static inline int64_t trailing_zeros(uint64_t word) { return word ? __builtin_ctzll(word) : 64; }
/* In plain arithmetic, which gcc vectorises: without -mpopcnt the builtin is a call. */
static inline int64_t bit_count(uint64_t word) {
    word -= word >> 1 & 0x5555555555555555;
    word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F;
    return (int64_t)(word * 0x0101010101010101 >> 56);
}
static inline uint32_t bit_count32(uint32_t word) {
    word -= word >> 1 & 0x55555555;
    word = (word & 0x33333333) + (word >> 2 & 0x33333333);
    word = (word + (word >> 4)) & 0x0F0F0F0F;
    word += word >> 8;
    return (word + (word >> 16)) & 63;
}

static inline void set_bit(uint8_t *bits, int64_t place) { bits[place >> 3] |= (uint8_t)(1 << (place & 7)); }
static inline bool has_bit(const uint8_t *bits, int64_t place) { return bits[place >> 3] >> (place & 7) & 1; }
static inline uint64_t rotated(uint64_t hash) { return hash << 5 | hash >> 59; }

/* Append a token to the rolling hash of the tokens before it. */
static inline uint64_t rolled(uint64_t hash, uint64_t token) { return (rotated(hash) ^ token) * FNV_PRIME; }

/* max(NaN, x) is NaN, and max(x, NaN) is x; min likewise. Put a number that may be unknown first to keep "unknown",
 * second to ignore it. */
static inline float max_f32(float a, float b) { return b > a ? b : a; }
static inline float min_f32(float a, float b) { return b < a ? b : a; }
static inline double max_f64(double a, double b) { return b > a ? b : a; }
static inline double min_f64(double a, double b) { return b < a ? b : a; }

/* ---- hash tables ---- */

/* Slots of a hash table of at most `count` members: a power of two, at most a quarter full. */
static inline int64_t slots_for(int64_t count) {
    int64_t size = 64;
    while (size < 4 * count) size *= 2;
    return size;
}

/* Where a hash begins to look for its slot. Hashes of texts can be chosen so that they share slots, and then a table
 * with linear probing takes quadratic time; with a secret they cannot. No result depends on the order of slots. The
 * halves of a product, folded: as in wyhash, Wang Yi 2019. */
static inline uint64_t first_slot(uint64_t hash, uint64_t secret, uint64_t mask) {
    unsigned __int128 product = (unsigned __int128)(hash ^ rotated(secret)) * (secret | 1);
    return ((uint64_t)(product >> 64) ^ (uint64_t)product) & mask;
}

/* Scratch of `distinct`. */
typedef struct {
    uint32_t *slots;
    uint64_t secret;
} slot_table;

/* Take a table of at most `count` hashes. */
static inline slot_table take_slots(arena *scratch, int64_t count) {
    return (slot_table){arena_take(scratch, slots_for(count) + 2 * count + 1, sizeof(uint32_t)), arena_secret(scratch)};
}

/* ---- blocks of bytes ---- */

typedef uint8_t bytes16 __attribute__((vector_size(16)));

static inline bytes16 load16(const uint8_t *from) {
    bytes16 block;
    memcpy(&block, from, sizeof block);
    return block;
}

/* All bits of each byte that lies between two others, else none. */
static inline bytes16 between(bytes16 block, uint8_t first, uint8_t last) {
    return (bytes16)((bytes16)(block - first) <= (uint8_t)(last - first));
}

/* The highest bit of each byte: one bit a byte, of which the next one is found by counting trailing zeros (Lemire,
 * Langdale, "Parsing Gigabytes of JSON per Second", 2019). */
static inline uint64_t high_bits(bytes16 block) {
#ifdef __SSE2__
    return (uint64_t)__builtin_ia32_pmovmskb128((char __attribute__((vector_size(16))))block);
#else
    const uint64_t highest = 0x8080808080808080ull, gather = 0x0002040810204081ull; /* the k-th byte's bit to 56 + k */
    uint64_t halves[2];
    memcpy(halves, &block, sizeof halves);
    return (halves[0] & highest) * gather >> 56 | (halves[1] & highest) * gather >> 56 << 8;
#endif
}

/* ---- tokens (text.c) ---- */

enum {
    SLACK = 128, /* spaces behind a folded text, because it is read in blocks */
    GROWTH = 3,  /* most folded bytes for each byte of a text */
    MOST_TEXT_BYTES = INT32_MAX / GROWTH - SLACK, /* places in a folded text have 32 bits */
};

/* Of characters, see characters.py: classes; how one interacts with its neighbours; fields of an entry. */
enum { SEPARATOR, WORD, CHARACTER, IGNORED, PART };
enum { INERT, DECOMPOSABLE, MARK, CONTEXT };
enum { CODE_MASK = 0x1FFFFF, EXPANDS = 0x200000, CLASS_SHIFT = 22, KIND_SHIFT = 25, NON_JOINER = 0x200C };

/* Classes of characters, and how those beyond ASCII are folded. */
typedef struct {
    const uint8_t *classes; /* by code point */
    int64_t class_count;
    const uint32_t *folds; /* entries by code point; the last one stands for all others. None: fold ASCII alone */
    int64_t fold_count;
    const uint32_t *longer_folds;
    uint64_t seed; /* of the hashes of tokens */
    /* Number words, negations and hints, see kernel.py: hashes, ascending; the hash that stands for each; its trait. */
    const uint64_t *known, *meant;
    const uint8_t *known_traits;
    const uint16_t *known_starts; /* (2^START_BITS + 1) where the hashes with these upper bits begin */
    const uint64_t *known_bits; /* a filter of 2^LEXICON_BITS bits; NULL: there are none */
} token_tables;

/* What a token is. HINT: corrections have such words. NUMBER_WORD: its hash is that of its digits ("twelve": of "12").
 * FIGURE: it has a digit. */
enum { NO_TRAIT, HINT, NEGATION, NUMBER_WORD, FIGURE };
/* Characters at either end of a text in which corrections.py looks for a note. */
enum { EDGE = 300 };
/* A blocked Bloom filter, which stays in the first-level cache: the upper bits of a hash choose a word, and the six bits
 * below them, and the next six, a bit in it. */
enum { LEXICON_BITS = 16, START_BITS = 12 };

/* The tokens of one text. The arrays are longer than the text and are used again for the next one. */
typedef struct {
    uint8_t *text;    /* folded, with SLACK spaces behind it */
    int32_t *places;  /* start and end of each token in `text` */
    uint64_t *hashes; /* of each token */
    uint64_t *heads;  /* `head_of` each word; of a character its code, inverted (that of U+6574 is "te"), 0 with marks */
    uint8_t *kinds;   /* 1 for a character of a script without spaces, 0 for a word */
    uint8_t *traits;  /* of each token */
    int32_t *special; /* the tokens with a trait, and the words whose first letters are not all ASCII; ascending */
    int32_t *marks;   /* bytes that may end a line or a sentence: the place of each, and how many tokens are before it */
    int64_t count, special_count, mark_count;
    int64_t size;          /* bytes of `text` */
    bool has_characters;   /* whether any kind is 1 */
} token_list;

/* What shingles are made of: tokens, or the letters of one text. */
typedef struct {
    uint64_t *hashes;
    uint8_t *kinds;
    int64_t count;
    bool has_characters;
    int32_t *starts; /* the first letter of each token, and then the number of letters; NULL: units are tokens */
} unit_list;

/* Whether a byte of UTF-8 begins a character. */
static inline bool begins_character(uint8_t byte) { return (byte & 0xC0) != 0x80; }

/* The code point of the character beyond ASCII that begins there in valid UTF-8. */
static inline uint32_t decode_character(const uint8_t *at, int64_t *width) {
    uint32_t lead = at[0];
    *width = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead < 0xE0) return (lead & 0x1F) << 6 | (at[1] & 0x3Fu);
    if (lead < 0xF0) return (lead & 0x0F) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
    return (lead & 0x07) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu);
}

/* The first eight bytes of a word; zeros, which no word contains, follow its end. A table, because without BMI2 a shift
 * takes three times as long. */
static inline uint64_t head_of(const uint8_t *word, int64_t size) {
    static const uint64_t masks[] = {0, 0xFF, 0xFFFF, 0xFFFFFF, UINT32_MAX, UINT64_MAX >> 24, UINT64_MAX >> 16,
                                     UINT64_MAX >> 8, UINT64_MAX};
    return load64(word) & masks[min_i64(size, 8)];
}

/* Letters of a word that count in words.c; of their bytes the highest bits, set beyond ASCII. */
enum { STEM_LETTERS = 5 };
#define STEM_BEYOND_ASCII 0x8080808080ull

/* The hash of a word of at most eight bytes; of a character. */
static inline uint64_t hash_head(uint64_t head, uint64_t seed) { return mix((head ^ seed) * GOLDEN); }

/* Hash the bytes of a word, eight at a time. */
static inline uint64_t hash_word(const uint8_t *word, int64_t size, uint64_t seed) {
    uint64_t hash = (head_of(word, size) ^ seed) * GOLDEN;
    for (; size > 8; size -= 8) {
        word += 8;
        /* Salted (Scheme.token_seed): without this step, two changes of a long word cancel whatever the seed is. */
        if (seed >> 32) hash = mix(hash);
        hash = (hash ^ (hash >> 32) ^ head_of(word, size - 8)) * MIX_1;
    }
    return mix(hash);
}

/* Whether a token that begins so is a number; the digits of all scripts are folded to ASCII. */
static inline bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

/* The tokens that a text of this many bytes can have: a word has a byte and a separator, a character three bytes. */
static inline int64_t most_tokens(int64_t size) { return (GROWTH * size + 1) / 2 + 1; }

bool tokenise(const uint8_t *text, int64_t size, const token_tables *tables, token_list *tokens);
int64_t folded_size(const uint8_t *text, int64_t size, const token_tables *tables);
void spell(const token_list *tokens, uint64_t seed, unit_list *letters);

/* ---- passages (sentences.c) ---- */

/* A passage of a text; the passages cut each text without a gap. Tokens and shingles count from those of the first
 * text of a batch. */
typedef struct {
    int64_t end;                         /* the token after it */
    int64_t first_shingle, last_shingle; /* those that begin in it and end in its sentence */
    uint32_t hash;                       /* of its tokens */
    bool is_prose;                       /* it is part of a sentence of prose */
    bool is_last;                        /* it ends its sentence or line */
    bool is_marked;                      /* its sentence ends in a mark, and does not begin in brackets */
} passage;

/* Lines and sentences of one text. */
typedef struct {
    int32_t *ends;     /* the token after each */
    bool *is_sentence; /* it ends in a sentence mark and not at the end of a line */
    int64_t count;
} sentence_list;

void split_sentences(const token_list *tokens, sentence_list *sentences);
int64_t cut_passages(const token_list *tokens, const uint32_t *words, const unit_list *units, int64_t width,
                     const sentence_list *sentences, int64_t first_token, int64_t first_shingle, passage *out);

/* ---- words and numbers (words.c) ---- */

enum {
    FILTER_BITS = 768, /* of the filter of words and numbers: words.c */
    FILTER_BYTES = FILTER_BITS / 8,
    NO_WORD = FILTER_BITS,       /* in place of the bit of a word: a token that is none */
    WORD_SET_BYTES = 4096,       /* of a set of 15-bit word hashes */
    MOST_HEADLINE_FEATURES = 64, /* a longer headline is none */
    HEADLINE_FEATURES = 24,         /* of a headline that are kept, as features in its signature and as hashes */
    MOST_HEADLINE_NUMBERS = 8,
};

typedef struct {
    uint32_t value; /* a hash, never 0 */
    int32_t token;  /* the first one */
} number;

/* The bit of a 32-bit hash in a filter. */
static inline int64_t bit_of_word(uint32_t hash) { return (int64_t)((uint64_t)hash * FILTER_BITS >> 32); }

/* The second bit of a number: by a prime near 2^32 divided by the golden ratio. */
static inline int64_t second_bit(uint32_t hash) { return bit_of_word((uint32_t)(hash * 0x9E3779B1u)); }

/* The bit of a number among the 64 that are for numbers alone: an odd factor, as in the mixer of Stafford. */
static inline uint64_t bit_of_number(uint32_t hash) { return 1ull << ((uint64_t)hash * 0xD6E8FEB86659FD93ull >> 58); }

static inline bool has_word(const uint8_t *bits, uint32_t hash) { return has_bit(bits, bit_of_word(hash)); }
static inline bool has_number(const uint8_t *bits, uint64_t figures, uint32_t hash) {
    return figures & bit_of_number(hash) && has_bit(bits, bit_of_word(hash)) && has_bit(bits, second_bit(hash));
}

int64_t find_headline_features(const token_list *tokens, uint64_t seed, slot_table table, uint64_t *out);
void find_words(const token_list *tokens, uint64_t seed, uint32_t *out);
int64_t find_numbers(const token_list *tokens, uint64_t seed, number *out);

/* ---- shingles (shingles.c) ---- */

/* Units of a shingle that begins with a word or letter, and of one that begins with a character. */
typedef struct {
    int64_t words, characters;
} shingle_widths;

/* The MinHash functions of headlines. */
typedef struct {
    const uint32_t *permutations; /* multipliers, then offsets: (2, count) */
    int64_t count, rows;          /* functions, and how many make a band */
    int64_t first_column;         /* of the keys of an item */
} band_recipe;

/* How anchors are made: a run consists of the shingles i, i + step and i + last. */
typedef struct {
    int64_t keys;
    int64_t step, last;                     /* in texts without characters of scripts without spaces */
    int64_t character_step, character_last; /* and in others */
} anchor_recipe;

int64_t every_shingle(const unit_list *units, shingle_widths widths, uint64_t *out);
int64_t distinct(const uint64_t *hashes, int64_t count, slot_table table, uint64_t *out);
void sketch(const uint64_t *shingles, int64_t count, int64_t bins, uint64_t *minima, uint8_t *out);
void band_keys(const uint64_t *shingles, int64_t count, const band_recipe *bands, uint32_t *narrow, uint32_t *keys);
void anchor_keys(const uint64_t *shingles, int64_t count, int64_t step, int64_t last, int64_t most, uint32_t *keys);
uint64_t simhash(const uint64_t *shingles, int64_t count);

/* ---- packed sets (sets.c) ---- */

enum {
    HASH_BITS = 24,                      /* upper bits of a shingle that are stored */
    SET_FIRST_BYTE = 8 - HASH_BITS / 8,  /* the lowest byte of a shingle that is stored */
    MAX_MEMBERS = 1 << 16,              /* and how many shingles of a set are */
};

static inline uint32_t member_of(uint64_t shingle) { return (uint32_t)(shingle >> (64 - HASH_BITS)); }

int64_t most_set_bytes(int64_t count);
/* Write the packed set of distinct shingles, which are then in another order, into `room` bytes; return how many it
 * takes, or CORE_BAD_SIZE before it writes more. other: scratch, one a shingle. */
int64_t pack_members(uint64_t *shingles, int64_t count, uint64_t *other, uint8_t *out, int64_t room);
/* Decode a set of `count` members from data[:size]; return how many are stored, at most MAX_MEMBERS. */
CORE_API int64_t decode_set(const uint8_t *data, int64_t size, int64_t count, uint32_t *members);
/* The number of values that two ascending arrays share. O(values). */
int64_t count_equal(const uint32_t *left, int64_t left_count, const uint32_t *right, int64_t right_count);

/* The stored members, ascending, of a set of `size`. */
typedef struct stored_set {
    const uint32_t *members;
    int64_t count, size;
} stored_set;

/* Members that two sets share, and the members of each that count: of sets that are not stored whole, those in the
 * range of hashes that both have stored. */
typedef struct shared_members {
    int64_t both, of_left, of_right;
} shared_members;

shared_members compare_members(const stored_set *left, const stored_set *right);

/* ---- signatures: as they are stored, packed ---- */

/* The prefix of every signature. */
enum { ROW_ID_AT = 0, DIGEST_AT = 8, SOURCE_AT = 16, TIME_AT = 24, BODY_SIZE_AT = 44, HEADLINE_SIZE_AT = 48 };

/* Where the fields of a family begin in a signature; -1 for a field that it does not have. A family has a SimHash of
 * one word, or all of the others. */
typedef struct layout {
    int64_t stride; /* bytes of a signature */
    int64_t simhash, form, headline, words, figures, body;
    int64_t headline_features, body_bytes; /* body_bytes: 0 if bodies are stored whole */
} layout;

/* `count` signatures. Body i is bodies[bounds[i]:bounds[i + 1]] (sequences.c); bounds is NULL if there are none. */
typedef struct signatures {
    const uint8_t *rows;
    const uint8_t *bodies;
    const int64_t *bounds;
    int64_t count, body_bytes;
    layout layout;
} signatures;

/* A signature, and its body, or NULL. */
typedef struct view {
    const uint8_t *signature, *body;
    int64_t body_bytes;
    bool is_old; /* its sequence does not count, whether it is still there or not */
} view;

static inline const uint8_t *signature_at(const signatures *all, int64_t i) {
    return all->rows + i * all->layout.stride;
}
static inline view view_at(const signatures *all, int64_t i) {
    view one = {signature_at(all, i), NULL, 0, false};
    if (!all->bounds) return one;
    one.body = all->bodies + all->bounds[i];
    one.body_bytes = all->bounds[i + 1] - all->bounds[i];
    return one;
}
static inline uint64_t row_id_of(const uint8_t *signature) { return load64(signature + ROW_ID_AT); }
static inline uint64_t digest_of(const uint8_t *signature) { return load64(signature + DIGEST_AT); }
static inline uint64_t source_of(const uint8_t *signature) { return load64(signature + SOURCE_AT); }
static inline int64_t time_of(const uint8_t *signature) { return (int64_t)load64(signature + TIME_AT); }
/* Milliseconds between two times; those of damaged data may be so far apart that it overflows, to any number. */
static inline int64_t time_between(int64_t a, int64_t b) {
    int64_t gap = (int64_t)((uint64_t)a - (uint64_t)b);
    return gap < 0 ? (int64_t)(0 - (uint64_t)gap) : gap;
}

/* ---- sequences (sequences.c) ---- */

enum {
    MOST_SEQUENCE = 1 << 14, /* codes of a text; a longer one has none, and is compared by its filters */
    HEADLINE_CODES = 64,     /* and of its headline */
    SEQUENCE_HEAD = 8,       /* bytes in front of the codes */
    FURTHER_GROUP = 0,       /* code of a group of digits behind the first one: that of a word, for it is no figure */
    STEMS = 3840, STEM_SHIFT = 4,
    FIGURE_CODES = STEMS << STEM_SHIFT, /* the codes of figures begin here, those below are words and characters */
    NEGATION_CODES = 0xFC00,            /* and those of negations here */
    CODES = 1 << 16,
};

static inline bool is_negation(uint16_t code) { return code >= NEGATION_CODES; }
static inline bool is_figure(uint16_t code) { return code >= FIGURE_CODES && code < NEGATION_CODES; }

/* The codes of an item, headline first, at any address. */
typedef struct sequence {
    const uint8_t *bytes;
    int64_t count, headline;
} sequence;

/* Write the codes of the first `count` tokens. stems: `find_words`; numbers: `find_numbers`, where `first` stands for the
 * first token. */
void write_codes(const token_list *tokens, const uint32_t *stems, const number *numbers, int64_t number_count,
                 int64_t first, int64_t count, uint16_t *out);
/* The sequence in a body: none if it has none, or is damaged. */
sequence sequence_of(const view *one);
/* The same item with the packed set that its body ends with. */
view set_of(const view *one);

/* ---- the diff (diff.c) ---- */

/* Room to compare one new text with known ones. */
typedef struct diff diff;

/* What the sentences of a new item are beside a known one, in tokens; see `add_sentence`. */
typedef struct differences {
    int64_t tokens, matched;    /* of all sentences */
    int64_t fresh, inserted;    /* without a partner, in new sentences of prose; in those between known ones */
    int64_t altered, facts;     /* in known sentences: words in the place of others; figures, negations */
    int64_t of_headline;        /* of these, those of the new headline alone */
    int64_t brief;              /* in short sentences behind known ones, and in rows of a list */
    int64_t told;               /* words of the new headline in that new sentence which says most of them */
    int64_t lead, rest, said;   /* without a partner, in the first sentence of prose and behind it; see `words_said` */
    int64_t places, rewritten;  /* where new words stand between known ones; of a few words or more, behind the lead */
    int64_t new_since, row_figures; /* scratch: new words of prose until the next known sentence; of a known line before */
    int64_t next, gap, run, run_start, known_end; /* scratch of `add_gaps` */
    bool has_lead, has_known, is_behind_known, is_lead;
} differences;

diff *take_diff(arena *scratch);
/* Begin to compare a new item of so many tokens; false if it has no sequence of them. O(words). */
bool begin_diff(diff *work, const view *own, int64_t tokens);
/* Align it with a known item; false if that has no sequence. O(words of both). */
bool diff_with(diff *work, const view *known);
/* Of each token of the new text: whether the known item has a word like it (of its stem, or the same figure), has none,
 * or has a partner of it. */
enum { HAS_LIKE, HAS_NONE, IS_MATCHED };
const uint8_t *states_of(const diff *work);
/* Whether the new headline has a word or figure that the known item has nowhere. */
bool has_new_headline(const diff *work);
/* Whether one of two headlines denies what the other says, in nearly the same words. */
bool denies_headline(const diff *work);
/* Whether a part of the new text has new words that only its headline says. */
bool says_headline(const diff *work, int64_t begin, int64_t end);
/* Add a sentence of the new text, tokens begin to end, to what was found. */
void add_sentence(const diff *work, int64_t begin, int64_t end, bool is_prose, bool is_marked, differences *found);

/* ---- boilerplate (boilerplate.c) ---- */

enum {
    SIGHTINGS = 3, /* originals that must share a passage to make it boilerplate */
    /* A page of comments has thousands of sentences; more than these tell nothing about its site. */
    MOST_PASSAGES = 128,
};

/* A passage and its last sightings, s, the latest first. hash 0: free. */
typedef struct sighted {
    uint32_t hash, seen[SIGHTINGS];
} sighted;

typedef struct boilerplate {
    sighted *entries;
    int64_t count; /* of entries, a power of two */
} boilerplate;

/* What an entry held before it changed. */
typedef struct change {
    int64_t entry;
    sighted before;
} change;

/* Changes to undo, in order, `count` of at most `room`. */
typedef struct changes {
    change *list;
    int64_t count, room;
} changes;

/* Read the hash's bucket into the cache. */
void touch_boilerplate(const boilerplate *table, uint32_t hash);
/* Whether a passage was seen in three originals since `start`, s. */
bool is_boilerplate(const boilerplate *table, uint32_t hash, uint32_t start);
/* Count the passages of an original at `time`, s: the first 128 hashes, each once. They lie `stride` bytes apart, as in
 * an array of passages. log: NULL, or has room for them all. */
void add_original(const boilerplate *table, const uint32_t *hashes, int64_t stride, int64_t count, uint32_t time,
                  changes *log);

/* ---- fingerprints (fingerprint.c) ---- */

/* What is made of each item, and where its signature has it. */
typedef struct {
    shingle_widths widths;
    band_recipe bands; /* of the headline */
    anchor_recipe anchors;
    int64_t of_letters; /* whether shingles are of letters */
    layout layout;
} fingerprint_recipe;

/* Headline and text of each item, valid UTF-8. */
typedef struct {
    const uint8_t *const *texts; /* two an item */
    const int64_t *sizes;        /* two an item, in bytes */
    const int64_t *rows;         /* the row of each item in the outputs */
    int64_t count;
} text_batch;

/* The rows of a batch that are filled, and what its texts consist of. */
typedef struct {
    uint8_t *signatures; /* zeros before */
    uint32_t *keys;      /* zeros before */
    int64_t key_columns;
    uint8_t *word_sets;                          /* (n, WORD_SET_BYTES) */
    uint32_t *headline_words, *headline_numbers; /* zeros before */
    int64_t *firsts, *lasts;                     /* (n, 2) the passages and the numbers of each text */
    int64_t *body_bounds;                        /* (n, 2) begin and end of the bodies */
    uint8_t *hints;                              /* (n) whether a text has a HINT in one of its edges */
    int64_t has_sets;                            /* whether a body ends with a packed set */
    int64_t *unfolded;                           /* (count) items of the call that are not filled */
    int64_t is_continued; /* this call goes on behind the last one, with other rows: what that had stays */
    /* What there is so far, in arrays of the caller; where these are too short, in scratch memory until another function
     * takes that memory. */
    uint16_t *words; /* the bit in a filter of the word that begins with each token, or FILTER_BITS */
    uint64_t *shingles;
    number *numbers;
    passage *passages;
    uint8_t *bodies;
    int64_t word_count, shingle_count, number_count, passage_count, body_bytes;
    int64_t word_room, shingle_room, number_room, passage_room, body_room;
} fingerprint_outputs;

/* ---- similarity: a record ---- */

/* A pair of a new and a known item: similarity.h says what each field means, and when it is NaN. */
typedef struct similarity {
#define FIELD(type, name) type name;
#include "similarity.h"
} similarity;

/* ---- novelty (novelty.c) ---- */

/* What n texts consist of: see `Texts` in kernel.py. */
typedef struct texts {
    const int64_t *firsts, *lasts;                     /* (n, 2): of its passages, and of its numbers */
    const uint32_t *headline_words, *headline_numbers; /* (n, 24) and (n, 8), ended by 0 */
    const uint16_t *words;                             /* of each token: its bit in a filter, or NO_WORD */
    const uint64_t *shingles;
    const number *numbers;
    const passage *passages;
    int64_t word_count, shingle_count, number_count, passage_count;
} texts;

/* Where an item says that it is a correction, or that it is a version of an earlier one: corrections.py. */
enum { IN_HEADLINE = 1, IN_TEXT = 2, NEW_VERSION = 3 };

/* What is known of new items, and not stored: see `NewItems` in similarity.py. */
typedef struct news {
    int64_t count;
    const uint8_t *word_sets; /* (count, 4096); NULL if the family has none */
    const int8_t *corrects; /* (count,) see corrections.py */
    int64_t hamming;        /* of the scheme */
    int64_t asks_novelty;   /* whether novelty is computed; else what follows is not read */
    texts texts;
    boilerplate boilerplate;
    const uint32_t *starts; /* (count,) begin of each item's window, s */
} news;

/* What novelty is computed on: the article of an item, or its whole text if there is hardly any article. */
typedef struct article {
    int64_t tokens, length; /* of the whole text, and of the article */
    bool is_article;
    uint16_t *places;  /* in a filter, of its tokens */
    int32_t *tokens_at; /* its tokens in the text */
    int64_t *ends;     /* of its sentences */
    uint64_t *figures; /* each once, those of prose first */
    uint8_t *sketch;   /* of its shingles */
    uint32_t *members; /* or, for exact comparison, these as a set */
    uint8_t *lacks;    /* 1 for each place in a filter that a known item lacks; 0 for NO_WORD */
    int64_t place_count, sentence_count, prose_figures, figure_count;
    int64_t shingle_count; /* of its shingles; in a sketch with repeats, which hardly count */
    bool *recurs;          /* scratch, as what follows: of each passage */
    uint64_t *shingles, *minima, *other;
    slot_table table;
} article;

/* Take room for the largest article of `news`; check the texts. Returns 0 or an error. */
int64_t room_for_article(arena *scratch, const news *news, const layout *layout, bool is_exact, article *article);
void take_article(article *article, const news *news, int64_t item, int64_t sketch_bytes, bool is_exact);
/* Count the words and figures of an item that a known item lacks. headline: in the item's signature; filter, figures:
 * of the known item; diff: with the known item, or NULL if one of the two has no sequence. */
void find_new(similarity *pair, const news *news, int64_t item, const uint8_t *headline, const uint8_t *filter,
              uint64_t figures, article *article, const diff *diff);

/* Sum up what a diff says of the sentences of the new item, but for those that recur elsewhere. */
void find_differences(similarity *pair, const news *news, int64_t item, const article *article, const diff *diff);

enum { MOST_NUMBERS = 4 };

/* What is new in a text, for people: MOST_NEW in additions.py says what each field means. */
typedef struct most_new {
    int32_t tokens, begin, end, first, last, number_count, numbers[MOST_NUMBERS];
    bool is_headline_new;
} most_new;

/* Find it beside a known item, whose filters are these. diff: with it, or NULL. */
void find_most_new(most_new *found, const texts *texts, int64_t item, const uint8_t *filter, uint64_t figures,
                   const diff *diff);

/* Estimated from two filters, distinct words: of the known item that the new one lacks; of the new one that the known
 * one lacks; and of the one with fewer. */
typedef struct exchanged {
    double lost, gained, fewer;
} exchanged;

exchanged exchanged_words(const uint8_t *known, const uint8_t *own);

/* ---- measuring (similarity.c) ---- */

/* Room to measure one item of a batch at a time; large enough for each of them. */
typedef struct workspace workspace;

/* Take a workspace for the items of `news`, whose signatures have the layout of `items`; check the layout, the bounds
 * of their bodies, and those of their texts. Returns 0 or an error. */
int64_t take_workspace(arena *scratch, const news *news, const signatures *items, workspace **taken);
/* Write into pairs[k] the similarities of the new item, number `item` of `news`, and of known[k]. The caller has set
 * pairs[k].apart. */
void measure(workspace *room, similarity *pairs, const news *news, int64_t item, const view *own, const view *known,
             int64_t count);
/* Find what is new of the item that was measured last, beside one of the known items, whose pair is this. */
void describe(workspace *room, const similarity *pair, const news *news, int64_t item, const view *known,
              most_new *found);

/* ---- rule (rule.c) ---- */

enum { TREE_DEPTH = 4, LEAVES = 1 << TREE_DEPTH, INNER_NODES = LEAVES - 1 };

/* Boosted trees: see rule.py. Walking six at once takes a third less time than one after the other; four, a fifth. */
enum { TREES_AT_ONCE = 6 };
typedef struct trees {
    const uint8_t *features; /* (count, 15) */
    const float *thresholds; /* (count, 15) */
    const float *leaves;     /* (count, 16) their log-odds */
    int64_t count;           /* a multiple of TREES_AT_ONCE */
} trees;

/* The settings of a decision, and its trees: `Rule` in rule.py says what each field means. */
typedef struct thresholds {
    trees novelty, kinship;
    float body, hold_below, same_article;
    bool is_plain;
} thresholds;

/* Log-odds that the new item of a pair has something new; NaN where it is unknown. */
float novelty_logit(const similarity *pair, const thresholds *rule);
/* Log-odds that a pair is the same article; from `same_article` on it counts as the same. */
float kinship_logit(const similarity *pair, const thresholds *rule);
/* Whether a pair is one article: by kinship, and not a new event in the same words. */
bool is_same_article(const similarity *pair, const thresholds *rule);
/* The same for log-odds that are known: not if the pair reports two events in the same words, or in one form. */
bool is_same_by(float kinship, const similarity *pair, const thresholds *rule);
/* Whether the bodies of a pair are alike by plain similarity: Hamming distance, or Jaccard. */
bool is_alike(const similarity *pair, const thresholds *rule);
/* Whether a pair has the same words, headline included, and is not a new event. */
bool is_repeat(const similarity *pair);

/* What the decision says of a pair alone, see JUDGED in tools/pair_rule.py; log-odds: NaN where they are not computed. */
typedef struct judged {
    float logit, kinship;
    bool is_repeat, is_same, is_held;
} judged;

enum { OF_NOVELTY, OF_KINSHIP, OF_FIXED };

/* ---- times and windows (index.c, judge.c) ---- */

/* The time of a row whose time is doubted, and of one that is forgotten: index/times.py. */
#define ANY_TIME INT64_MAX
#define FORGOTTEN INT64_MIN

/* Which rows count for an item: a row of index.times.Windows. From row RECENT on, rows with a time from LOW to HIGH or
 * with ANY_TIME; before it, from OLD_LOW to OLD_HIGH. All inclusive. */
enum { RECENT, LOW, HIGH, OLD_LOW, OLD_HIGH, WINDOW_SIZE };

/* Whether a row with this time counts for an item: the one place that applies its window. */
static inline bool is_visible(int64_t time, bool is_recent, const int64_t *window) {
    if (is_recent) return (window[LOW] <= time && time <= window[HIGH]) || time == ANY_TIME;
    return window[OLD_LOW] <= time && time <= window[OLD_HIGH];
}

/* Steps of elapsed event time for which an arrival is recent: dedup/window.py. */
enum { RECENT_STEPS = 65 };

/* Whether an earlier item of the batch, with this step and time of window.Scope, counts for an item at step `now`. */
static inline bool is_in_window(int64_t step, int64_t time, int64_t now, const int64_t *window) {
    return is_visible(time, step >= now - RECENT_STEPS, window);
}

/* ---- index (index.c) ---- */

/* Sort words by their bytes `first` to `end` - 1, 0 the lowest; stable. Returns which of both arrays has them then: the
 * first one after an even number of bytes, else the other one. */
uint64_t *sort_words(uint64_t *words, uint64_t *other, int64_t count, int first, int end);

/* A hit of a lookup is one number: the item from bit ITEM_SHIFT on, its row (counted from the first one that is
 * held) from ROW_SHIFT on, and below it the column of the item's key. */
enum { KEY_BITS = 32, ROW_SHIFT = 12, ITEM_SHIFT = 44, COLUMN = (1 << ROW_SHIFT) - 1 };

/* Whether two keys of a table match: the `dont_care_bits` lower bits, at most 31, may differ in `max_hamming` places.
 *
 * Key 0 means "none", so a fingerprint whose key would be 0 has key 1, one bit off. Therefore one more bit may differ
 * where the upper bits are all zero. With dont_care_bits = 0 keys must be equal. */
static inline bool is_near(uint32_t key, uint32_t other, int64_t dont_care_bits, int64_t max_hamming) {
    uint32_t differ = key ^ other;
    int64_t most = max_hamming + (key >> dont_care_bits == 0);
    return differ >> dont_care_bits == 0 && bit_count32(differ) <= most && key && other;
}

/* index.runs.Run: sorted tables over the rows base to end - 1. starts (tables + 1): where each begins in keys and
 * offsets; directory: of each table, one after the other. */
typedef struct {
    int64_t base, end, tables;
    const int64_t *starts;
    const uint32_t *keys, *offsets, *directory;
} run;

/* index.runs.Nearness: which keys match. first_columns (tables + 1): the first column of each table, and C;
 * dont_care_bits (columns): the lower bits that may differ, 0 in an exact table. */
typedef struct {
    const int64_t *first_columns, *dont_care_bits;
    int64_t columns, tables, max_hamming;
} nearness;

/* index.runs.Lookup: of `items` items. queries (columns, items): 0 is no query; windows (items, WINDOW_SIZE);
 * times (rows): of the rows from `first` on; hidden (rows): 1 for a row that counts for no item, or NULL; budgets
 * (columns, items): the rows that each key may still give. hits: what was found, `count` of `room`. */
typedef struct {
    const uint32_t *queries;
    const int64_t *windows, *times;
    const uint8_t *hidden;
    int32_t *budgets;
    int64_t *hits;
    int64_t items, rows, first, count, room;
} lookup;

/* ---- clocks (clocks.c) ---- */

#define START (-(1ll << 62))    /* no time yet; the watermark before the first item */
#define FAR_FUTURE (1ll << 62) /* no time is later */

enum { RING_SIZE = 9 };
enum { NOTHING, MISSING, FUTURE, ALONE, LATE }; /* clocks.Odd: what is unusual about a stated time */

/* dedup.clocks.CLOCK: the state of a partition of the input. */
typedef struct {
    int32_t partition, weight;
    int64_t count, times[RING_SIZE];
} partition_clock;

/* dedup.clocks.Clocks.read: clocks (partitions); times, slots (items): stated times, and whose clock each item reads.
 * effective, odd, watermarks, elapsed (items): results. */
typedef struct {
    partition_clock *clocks;
    const int64_t *times, *slots;
    int64_t *effective, *watermarks, *elapsed;
    int8_t *odd;
    int64_t partitions, items, latest, window, watermark, total;
} clock_reading;

/* ---- pairs (pairs.c) ---- */

/* evaluate.exact: sets of ranks, the members of set i at bounds[i] to bounds[i + 1], and where each prefix ends. sizes:
 * with members of no other set; lists (ranks_shared + 1): where the posting list of each rank begins. */
typedef struct {
    const uint32_t *ranks;
    const int64_t *bounds, *sizes, *ends, *lists;
    int64_t sets, ranks_shared;
} set_corpus;

/* What is searched, and found. first, second, jaccard (most): the pairs; nearest (sets): the nearest of each, or -1. */
typedef struct {
    const int64_t *order;
    int64_t *nearest, *first, *second;
    double *jaccard;
    int64_t ordered, most, comparisons, is_first_only;
    double floor, rounding;
} set_search;

/* ---- a batch: records (decide.py) ---- */

enum { MAX_CANDIDATES = 12, NONE = -1 }; /* candidates that an item is compared with; no item, no candidate */

/* Kinds of subjects: batch.py. */
enum { EMPTY, ITEM, TOMBSTONE };

/* An item to judge, or a pending item: SUBJECT in decide.py says what each field means. */
typedef struct subject {
    uint64_t row_id, version;
    int64_t time, stated, elapsed;
    int64_t step, index_time, window[WINDOW_SIZE];
    int64_t first_hit, last_hit;
    uint32_t seen_at;
    uint8_t kind;
    bool is_preferred;
} subject;

/* What the questions of judge.c find: decide.py says what each means. */
typedef enum { SKIPPED, NEW, SAME_ID, SAME_TEXT, NOTHING_NEW, VERSION, REVISED, PREFERRED, DIFFERENT } finding;

/* Where and when an item came, and how long it is: a part of its signature, from TIME_AT on. */
typedef struct origin {
    int64_t time, offset;
    int32_t partition;
    uint32_t body_size;
} origin;

/* What became of an item: OUTCOME in decide.py. */
typedef struct outcome {
    int64_t row, row_number;
    origin original;
    similarity similar;
    most_new adds;
    float logit;
    int32_t candidates;
    uint8_t finding;
    bool is_added, is_counted;
} outcome;

/* The originals of this name, an id or a version, are forgotten: those that came before this addition. */
typedef struct deletion {
    int64_t before;
    uint64_t name;
} deletion;

/* Rows of the index as rows.py keeps them, 2^SEGMENT_BITS to a segment. ends: of each body, with a 0 in front. */
typedef struct segment {
    const uint8_t *signatures, *bodies;
    const void *ends;
    int64_t end_bytes; /* 4 or 8; 0: there are no bodies */
} segment;

enum { SEGMENT_BITS = 16 };

/* Keys (items, columns) of the items of a batch, and for each the newest earlier item that has it: `link_items`. */
typedef struct batch_keys {
    const uint32_t *values;
    int32_t *links;
    const int64_t *dont_care_bits;
    int64_t columns, max_hamming, bucket_limit;
} batch_keys;

/* What the index found for the items, as `index_find` writes it: rows are counted from `first_row`. */
typedef struct found_hits {
    const int64_t *hits;
    int64_t count, first_row;
} found_hits;

/* The rows of the index: where they are stored, the first one and the next one. Each added row pushes one more out:
 * `first_kept` rises by one. */
typedef struct stored_rows {
    const segment *segments;
    int64_t first, next, first_kept;
} stored_rows;

/* dedup.window.Arrivals: the first row of each of `count` steps, and the elapsed event times of the steps, ms; in front,
 * that of earlier rows. An original that arrived more than `text_steps` ago is compared by its filters. */
typedef struct arrivals {
    const int64_t *rows, *times;
    int64_t count, step_length, window, text_steps;
} arrivals;

/* What is deleted, `count` of at most `room`. */
typedef struct deletions {
    deletion *list;
    int64_t count, room;
} deletions;

/* A batch that is judged: `_Batch` in decide.py. */
typedef struct batch {
    const subject *subjects;
    outcome *outcomes;
    signatures items;
    batch_keys keys;
    found_hits found;
    stored_rows rows;
    arrivals arrivals;
    deletions deletions;
    const uint64_t *preferred; /* sources */
    int64_t preferred_count;
    int64_t pending, added; /* items that come first; items that are remembered so far */
    struct judge *state;    /* of the call before; NULL in the first one */
    bool forwards, drops;
} batch;

/* ---- candidates (candidates.c) ---- */

/* An earlier item that shares keys with the one at hand. row: its number in the index, which an item of the batch has
 * beforehand; item: its number in the batch, or NONE. */
typedef struct candidate {
    int64_t row, item, score;
} candidate;

/* Room to find candidates, and what is deleted. */
typedef struct search search;

/* Take room for a batch. Returns 0 or an error. */
int64_t take_search(arena *scratch, batch *batch, search **taken);
/* Choose the candidates of an item, after all items before it: MAX_CANDIDATES at most, the oldest first. Returns their
 * number, NONE if the index has to be asked for more rows, or CORE_BAD_SIZE. */
int64_t choose_candidates(search *search, int64_t item, candidate *best);
/* Delete all earlier originals of this name, an id or a version. */
void note_deletion(search *search, uint64_t name);
/* Where the signature of a candidate is stored. */
view view_of(const batch *batch, const candidate *one);
/* The name of one version of an id: of the hash of the id and the digest of the words, see candidates.py. */
static inline uint64_t version_of(uint64_t row_id, uint64_t digest) { return row_id ^ (digest * GOLDEN >> 32); }

#endif

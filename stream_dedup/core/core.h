/* The compiled core: every struct and function that its files share.
 *
 * Files follow the path of an item: text.c folds and tokenises, sentences.c cuts passages, words.c finds words and
 * numbers, shingles.c makes sketches and keys, fingerprint.c calls them for a batch; index.c looks keys up,
 * similarity.c compares two items, judge.c decides, pairs.c compares whole sets.
 *
 * Rules. A function gets pointers with lengths and keeps nothing: no global state. Scratch memory comes from an `arena`
 * that the caller owns. A function that Python calls is marked CORE_API and returns a count, or a negative `core_error`.
 * Machines are little-endian. A record that is stored (a row of SIMILARITY, of SUBJECT) has the layout of numpy's
 * aligned dtype of the same name; tests/core/test_layout.py compares them.
 */
#ifndef CORE_H
#define CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CORE_API __attribute__((visibility("default")))

/* ---- errors ---- */

typedef enum {
    CORE_NO_MEMORY = -1, /* the arena could not grow */
    CORE_BAD_SIZE = -2,  /* a size or position from outside does not fit its array */
} core_error;

/* ---- memory (memory.c) ---- */

/* Scratch memory of one thread. What a function takes lives until the exported function that took it returns. */
typedef struct arena arena;

CORE_API arena *arena_new(void);
CORE_API void arena_free(arena *scratch);
/* Begin an exported function: all that was taken before is free again. */
void arena_reset(arena *scratch);
/* `count` items of `size` bytes, aligned to 64 bytes and not cleared; NULL if there is no memory. */
void *arena_take(arena *scratch, int64_t count, size_t size);

/* The version of what this header declares: see VERSION in __init__.py. */
CORE_API int64_t core_version(void);

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
static inline int64_t bit_count(uint64_t word) { return __builtin_popcountll(word); }

static inline void set_bit(uint8_t *bits, int64_t place) { bits[place >> 3] |= (uint8_t)(1 << (place & 7)); }
static inline bool has_bit(const uint8_t *bits, int64_t place) { return bits[place >> 3] >> (place & 7) & 1; }
static inline uint64_t rotated(uint64_t hash) { return hash << 5 | hash >> 59; }

/* Append a token to the rolling hash of the tokens before it. */
static inline uint64_t rolled(uint64_t hash, uint64_t token) { return (rotated(hash) ^ token) * FNV_PRIME; }

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
};

/* Classes of characters, and how the others than ASCII are folded: characters.py. */
typedef struct {
    const uint8_t *classes; /* by code point */
    int64_t class_count;
    const uint32_t *folds; /* entries by code point; the last one stands for all others. None: fold ASCII alone */
    int64_t fold_count;
    const uint32_t *longer_folds;
    uint64_t seed; /* of the hashes of tokens */
} token_tables;

/* The tokens of one text. The arrays are longer than the text and are used again for the next one. */
typedef struct {
    uint8_t *text;    /* folded, with SLACK spaces behind it */
    int32_t *places;  /* start and end of each token in `text` */
    uint64_t *hashes; /* of each token */
    uint8_t *kinds;   /* 1 for a character of a script without spaces, 0 for a word */
    int64_t count;
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

/* The code point of the character beyond ASCII that begins there in valid UTF-8. */
static inline uint32_t decode_character(const uint8_t *at, int64_t *width) {
    uint32_t lead = at[0];
    *width = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead < 0xE0) return (lead & 0x1F) << 6 | (at[1] & 0x3Fu);
    if (lead < 0xF0) return (lead & 0x0F) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
    return (lead & 0x07) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu);
}

/* Hash the bytes of a word, eight at a time; zeros, which no word contains, pad the last eight. */
static inline uint64_t hash_word(const uint8_t *word, int64_t size, uint64_t seed) {
    int rest = 64 - 8 * (int)min_i64(size, 8);
    uint64_t hash = ((load64(word) << rest >> rest) ^ seed) * GOLDEN;
    for (; size > 8; size -= 8) {
        word += 8;
        rest = 64 - 8 * (int)min_i64(size - 8, 8);
        /* Salted (Scheme.token_seed): without this step, two changes of a long word cancel whatever the seed is. */
        if (seed >> 32) hash = mix(hash);
        hash = (hash ^ (hash >> 32) ^ (load64(word) << rest >> rest)) * MIX_1;
    }
    return mix(hash);
}

/* Whether a token that begins so is a number; the digits of all scripts are folded to ASCII. */
static inline bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

/* The tokens that a text of this many bytes can have: a word has a byte and a separator, a character three bytes. */
static inline int64_t most_tokens(int64_t size) { return (GROWTH * size + 1) / 2 + 1; }

bool tokenise(const uint8_t *text, int64_t size, const token_tables *tables, token_list *tokens);
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
} passage;

/* Lines and sentences of one text. */
typedef struct {
    int32_t *marks;    /* scratch: bytes that may end one */
    int32_t *ends;     /* the token after each */
    bool *is_sentence; /* it ends in a sentence mark and not at the end of a line */
    int64_t count;
} sentence_list;

void split_sentences(const token_list *tokens, sentence_list *sentences);
int64_t cut_passages(const token_list *tokens, const uint32_t *words, const unit_list *units, int64_t width,
                     const sentence_list *sentences, int64_t first_token, int64_t first_shingle, passage *out);

/* ---- words and numbers (words.c) ---- */

enum {
    FILTER_BITS = 768,           /* of the filter of words and numbers: word_filter.py */
    WORD_SET_BYTES = 4096,       /* of a set of 15-bit word hashes */
    MOST_HEADLINE_FEATURES = 64, /* a longer headline is none */
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

int64_t find_headline_features(const token_list *tokens, uint64_t seed, uint32_t *slots, uint64_t *out);
void find_words(const token_list *tokens, uint64_t seed, uint32_t *out);
int64_t find_numbers(const token_list *tokens, number *out);

/* ---- shingles (shingles.c) ---- */

/* Units of a shingle that begins with a word or letter, and of one that begins with a character. */
typedef struct {
    int64_t words, characters;
} shingle_widths;

/* The MinHash functions of a view. */
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

/* How SimHashes are made, and the weights of features: a hash table of a power of two of slots, 0 = free. */
typedef struct {
    int64_t words; /* of 64 bits; 0: no SimHash */
    int64_t weighting;
    const uint64_t *features;
    const uint16_t *weights;
    int64_t slots;
    int64_t unseen; /* the weight of all other features */
} simhash_recipe;

enum { UNIFORM, OCCURRENCES, RARITY }; /* weightings */

/* Slots of a hash table of at most `count` members: a power of two, at most a quarter full. */
static inline int64_t slots_for(int64_t count) {
    int64_t size = 64;
    while (size < 4 * count) size *= 2;
    return size;
}

int64_t every_shingle(const unit_list *units, shingle_widths widths, uint64_t *out);
int64_t distinct(const uint64_t *hashes, int64_t count, uint32_t *slots, uint64_t *out);
void sketch(const uint64_t *shingles, int64_t count, int64_t bins, uint64_t *minima, uint8_t *out);
void band_keys(const uint64_t *shingles, int64_t count, const band_recipe *bands, uint32_t *narrow, uint32_t *keys);
void anchor_keys(const uint64_t *shingles, int64_t count, int64_t step, int64_t last, int64_t most, uint32_t *keys);
void simhash(const uint64_t *features, int64_t count, const simhash_recipe *recipe, uint64_t *out);

/* ---- packed sets (sets.c, pack.c) ---- */

enum {
    SET_HASH_BITS = 24,        /* upper bits of a shingle that are stored */
    SET_MOST_MEMBERS = 1 << 16, /* and how many of them */
};

/* Bytes that a packed set may take: k <= 24 and a one for a member, and the zeros of n codes are at most 2.9 n. */
static inline int64_t most_set_bytes(int64_t count) { return 4 * min_i64(count, SET_MOST_MEMBERS) + 8; }

int64_t pack_members(const uint64_t *shingles, int64_t count, uint32_t *scratch, uint8_t *out);

/* ---- fingerprints (fingerprint.c) ---- */

/* What is made of each item, and where its signature has it. */
typedef struct {
    shingle_widths widths; /* of the features of a SimHash, or else of shingles */
    band_recipe headline, body;
    anchor_recipe anchors;
    simhash_recipe simhash;
    int64_t of_letters; /* whether shingles are of letters */
    int64_t body_bins;
    int64_t headline_features, headline_numbers; /* columns of what is known of headlines */
    int64_t signature_bytes;
    int64_t form, headline_at, filter, figures, body_at, simhash_at; /* offsets in a signature */
} fingerprint_recipe;

/* The prefix of every signature. */
enum { DIGEST_AT = 8, BODY_SIZE_AT = 44, HEADLINE_SIZE_AT = 48 };

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
    int64_t *set_ends;                           /* (count + 1) of the packed sets; NULL: none are made */
    int64_t *unfolded;                           /* (count) rows that are not filled */
    /* How many words, shingles, numbers and passages the calls before had, from which all positions count. */
    int64_t words_before, shingles_before, numbers_before, passages_before;
    /* What this call had; it lies in scratch memory until the next call that takes that memory. */
    uint16_t *words; /* the bit in a filter of the word that begins with each token, or FILTER_BITS */
    uint64_t *shingles;
    number *numbers;
    passage *passages;
    uint8_t *sets;
    int64_t word_count, shingle_count, number_count, passage_count, set_bytes;
    int64_t word_room, shingle_room, number_room, passage_room, set_room;
} fingerprint_outputs;

#endif

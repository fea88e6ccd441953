/* Turn the UTF-8 bytes of a text into tokens, each with a 64-bit hash. A word is a token, and so is each character of a
 * script without spaces.
 *
 * There are two passes over bytes that stay in the first-level cache. The first folds the text (ASCII in blocks, the
 * rest by table, see characters.py), drops ignored characters and writes a space for each separator beyond ASCII ("!"
 * for one that ends a sentence). So the second can find words with one bit a byte; it reads only texts of scripts
 * without spaces character by character. Measured on 3.7 KB of English news: 4 us a text, against 30 character by
 * character.
 */
#include "core.h"

enum { FOLDED = 32, MASKED = 64 }; /* bytes of a block of either pass */
enum { HASHED = 256 };             /* words of one block */

static inline uint32_t class_of(uint32_t entry) { return entry >> CLASS_SHIFT & 7; }

/* Copy a block with ASCII letters in lower case; a bit for each byte that is beyond ASCII or an apostrophe. */
static inline uint64_t lower_block(const uint8_t *from, uint8_t *to) {
    uint64_t special = 0;
    for (int at = 0; at < FOLDED; at += 16) {
        bytes16 block = load16(from + at);
        bytes16 lower = block | (between(block, 'A', 'Z') & 0x20);
        memcpy(to + at, &lower, sizeof lower);
        special |= high_bits(block | (bytes16)(block == '\'')) << at;
    }
    return special;
}

/* A bit for each byte of a block that is a lower-case letter, a digit or beyond ASCII. */
static inline uint64_t word_mask(const uint8_t *text) {
    uint64_t mask = 0;
    for (int at = 0; at < MASKED; at += 16) {
        bytes16 block = load16(text + at);
        mask |= high_bits(block | between(block, 'a', 'z') | between(block, '0', '9')) << at;
    }
    return mask;
}

static inline bool is_mark(uint32_t code) {
    return code == '\n' || code == '.' || code == '!' || code == '?' || code == '|';
}

/* A bit for each byte of a block that is a mark. */
static inline uint64_t mark_mask(const uint8_t *text) {
    uint64_t mask = 0;
    for (int at = 0; at < MASKED; at += 16) {
        bytes16 block = load16(text + at);
        bytes16 marked = (bytes16)(block == '\n') | (bytes16)(block == '.') | (bytes16)(block == '|');
        mask |= high_bits(marked | (bytes16)(block == '!') | (bytes16)(block == '?')) << at;
    }
    return mask;
}

static inline void add_mark(token_list *tokens, int64_t place, int64_t token) {
    tokens->marks[2 * tokens->mark_count] = (int32_t)place;
    tokens->marks[2 * tokens->mark_count++ + 1] = (int32_t)token;
}

/* The text that is folded, and how far. */
typedef struct {
    const uint8_t *start, *at, *end;
    uint8_t *first, *out;
    uint32_t written; /* the bits of all entries that were written */
} folding;

/* Append the character of an entry; return the new end. */
static inline uint8_t *write_entry(uint8_t *out, const uint8_t *first, uint32_t entry, uint32_t *written) {
    uint32_t code = entry & CODE_MASK;
    if (class_of(entry) == IGNORED) return out;
    *written |= entry;
    if (code < 0x80) {
        *out++ = (uint8_t)code;
        return out;
    }
    /* Letters that follow digits are a word of their own: a counter or an ending, which other writers set apart. */
    if (class_of(entry) == WORD && out > first && is_digit(out[-1])) *out++ = ' ';
    if (code < 0x800) {
        *out++ = (uint8_t)(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) *out++ = (uint8_t)(0xE0 | code >> 12);
        else *out++ = (uint8_t)(0xF0 | code >> 18), *out++ = (uint8_t)(0x80 | (code >> 12 & 0x3F));
        *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
    }
    *out++ = (uint8_t)(0x80 | (code & 0x3F));
    return out;
}

/* Fold characters beyond ASCII, drop apostrophes and keep spaces, up to the next other byte; false if the tables cannot.
 * In local variables: a write of a byte could change any other. */
static bool fold_by_table(folding *text, const token_tables *tables) {
    const uint8_t *at = text->at, *end = text->end, *first = text->first;
    const uint32_t *folds = tables->folds;
    uint32_t last = (uint32_t)tables->fold_count - 1, before = INERT, written = 0;
    uint8_t *out = text->out, previous = out > first ? out[-1] : ' ';
    for (int64_t width; at < end; at += width) {
        width = 1;
        if (*at == '\'' || *at == ' ') {
            if (*at == ' ') *out++ = previous = ' ';
            before = INERT;
            continue;
        }
        if (*at < 0x80) break;
        if (!tables->fold_count) return false;
        uint32_t code = decode_character(at, &width), entry = folds[code < last ? code : last];
        uint32_t behaviour = entry >> KIND_SHIFT & 3;
        /* Normalisation may swap two marks, or move a mark in front of an accent that is part of its letter. */
        if ((behaviour == CONTEXT) | ((behaviour == MARK) & (before != INERT))) return false;
        before = behaviour;
        bool is_same = (entry & (CODE_MASK | EXPANDS)) == code && class_of(entry) != IGNORED;
        if (is_same && width < 4 && !is_digit(previous)) { /* most */
            previous = at[0];
            written |= entry;
            out[0] = at[0];
            out[1] = at[1];
            out[2] = at[width - 1];
            out += width;
            continue;
        }
        if (entry & EXPANDS) {
            const uint32_t *parts = tables->longer_folds + ((entry & CODE_MASK) >> 4);
            for (uint32_t k = 0; k < (entry & 15); k++) out = write_entry(out, first, parts[k], &written);
        } else {
            /* A non-joiner is a space behind an Arabic letter, whose two bytes begin with 0xD8 to 0xDB. */
            if (code == NON_JOINER && at - text->start >= 2 && at[-2] >= 0xD8 && at[-2] <= 0xDB) *out++ = ' ';
            out = write_entry(out, first, entry, &written);
        }
        previous = out > first ? out[-1] : ' ';
    }
    text->at = at;
    text->out = out;
    text->written |= written;
    return true;
}

/* Write the folded bytes without ignored characters, and SLACK spaces; return their number, -1 if the tables cannot
 * fold the text. Blocks are read only within the text: the last one is a copy. */
static int64_t fold(const uint8_t *start, int64_t size, const token_tables *tables, uint8_t *out,
                    bool *has_characters) {
    folding text = {start, start, start + size, out, out, 0};
    while (text.at < text.end) {
        int64_t left = text.end - text.at;
        uint8_t last[FOLDED];
        const uint8_t *block = text.at;
        if (left < FOLDED) block = memcpy(memset(last, 0, sizeof last), text.at, (size_t)left);
        int64_t step = min_i64(min_i64(trailing_zeros(lower_block(block, text.out)), FOLDED), left);
        text.at += step;
        text.out += step;
        if (step < FOLDED && !fold_by_table(&text, tables)) return -1;
    }
    memset(text.out, ' ', SLACK);
    *has_characters = text.written >> CLASS_SHIFT & (CHARACTER | PART); /* no bit of another written class */
    return text.out - out;
}

/* The bytes that at most EDGE characters of a text fold to. */
int64_t folded_size(const uint8_t *text, int64_t size, const token_tables *tables) {
    uint8_t out[GROWTH * 4 * EDGE + 2 * SLACK];
    bool has_characters;
    return fold(text, size, tables, out, &has_characters);
}

/* The highest bit of each byte of a head that is a digit: of the bytes of words, digits alone have the fifth bit, but
 * not the seventh and the eighth. */
static inline uint64_t digits_of(uint64_t head) { return head << 3 & ~(head << 1 | head) & 0x8080808080808080ull; }

/* Whether the lexicon may have a hash: of three in a hundred it has not. */
static inline bool may_be_known(uint64_t hash, const uint64_t *known_bits) {
    uint64_t bits = known_bits[hash >> (64 - LEXICON_BITS + 6)];
    return bits >> (hash >> (64 - LEXICON_BITS) & 63) & bits >> (hash >> (58 - LEXICON_BITS) & 63) & 1;
}

/* Find the trait of a token that has no digit; a number word gets the hash of its digits. */
static inline uint8_t look_up(uint64_t *hash, const token_tables *tables) {
    if (!tables->known_bits || !may_be_known(*hash, tables->known_bits)) return NO_TRAIT;
    const uint16_t *starts = tables->known_starts + (*hash >> (64 - START_BITS));
    for (int64_t place = starts[0]; place < starts[1]; place++) {
        if (tables->known[place] != *hash) continue;
        *hash = tables->meant[place];
        return tables->known_traits[place];
    }
    return NO_TRAIT;
}

/* Whether its head does not tell all of a token: the hash of a long word or of a character with marks, the trait of a
 * figure, the first letters of a word beyond ASCII. The head of a character without marks has some of these bits. */
static inline bool is_open(uint64_t head, uint8_t kind) {
    return ((digits_of(head) | (head & (0xFFull << 56 | STEM_BEYOND_ASCII))) != 0) != kind;
}

/* The hash of such a token. */
static inline uint64_t hash_token(const token_list *tokens, int64_t i, uint64_t seed) {
    const uint8_t *start = tokens->text + tokens->places[2 * i], *end = tokens->text + tokens->places[2 * i + 1];
    if (!tokens->kinds[i]) return hash_word(start, end - start, seed);
    int64_t width;
    uint64_t hash = hash_head(~(uint64_t)decode_character(start, &width), seed);
    while ((start += width) < end)
        hash = mix(rolled(hash, hash_head(~(uint64_t)decode_character(start, &width), seed)));
    return hash;
}

/* Fill hashes and traits by places, kinds and heads. Which tokens need more than their head is hard to predict: in each
 * block they come last. */
static void take_tokens(token_list *tokens, const token_tables *tables) {
    static const uint64_t nothing[1 << (LEXICON_BITS - 6)];
    const uint64_t *known_bits = tables->known_bits ? tables->known_bits : nothing, *heads = tokens->heads;
    const uint8_t *kinds = tokens->kinds;
    uint64_t *hashes = tokens->hashes, seed = tables->seed;
    int64_t specials = 0;
    int32_t last[HASHED];
    memset(tokens->traits, NO_TRAIT, (size_t)tokens->count);
    for (int64_t first = 0; first < tokens->count; first += HASHED) {
        int64_t until = min_i64(first + HASHED, tokens->count), found = 0;
        for (int64_t i = first; i < until; i++) {
            uint64_t hash = hash_head(heads[i], seed);
            hashes[i] = hash;
            last[found] = (int32_t)i;
            found += is_open(heads[i], kinds[i]) | may_be_known(hash, known_bits);
        }
        for (int64_t k = 0; k < found; k++) {
            int64_t i = last[k];
            bool is_word = !kinds[i];
            uint64_t hash = is_open(heads[i], kinds[i]) ? hash_token(tokens, i, seed) : hashes[i];
            hashes[i] = hash;
            uint8_t trait = is_word && digits_of(heads[i]) ? FIGURE : look_up(is_word ? hashes + i : &hash, tables);
            tokens->traits[i] = trait;
            tokens->special[specials] = (int32_t)i;
            specials += trait || (is_word && heads[i] & STEM_BEYOND_ASCII);
        }
    }
    tokens->special_count = specials;
}

/* The places of the ones among four bits, and their number: to write four places each time takes no branch. */
typedef int32_t places4 __attribute__((vector_size(16)));
static const places4 ONES[] = {{0}, {0},    {1},    {0, 1},    {2},    {0, 2},    {1, 2},    {0, 1, 2},
                               {3}, {0, 3}, {1, 3}, {0, 1, 3}, {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}};
static const uint8_t ONE_COUNTS[] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};

/* Find the words of a folded text of scripts with spaces. */
static void split_words(token_list *tokens) {
    int32_t *places = tokens->places;
    int64_t edges = 0;
    uint64_t carry = 0;
    for (int64_t base = 0; base < tokens->size + 1; base += MASKED) {
        uint64_t mask = word_mask(tokens->text + base), changes = mask ^ (mask << 1 | carry);
        carry = mask >> 63;
        for (uint64_t marks = mark_mask(tokens->text + base); marks; marks &= marks - 1) /* a word has two edges */
            add_mark(tokens, base + trailing_zeros(marks), (edges + bit_count(changes & (marks ^ (marks - 1)))) / 2);
        for (int64_t at = base; at < base + MASKED; at += 4, changes >>= 4) {
            places4 found = ONES[changes & 15] + (int32_t)at;
            memcpy(places + edges, &found, sizeof found);
            edges += ONE_COUNTS[changes & 15];
        }
    }
    tokens->count = edges / 2;
    memset(tokens->kinds, 0, (size_t)tokens->count);
    for (int64_t i = 0; i < tokens->count; i++)
        tokens->heads[i] = head_of(tokens->text + places[2 * i], places[2 * i + 1] - places[2 * i]);
}

static inline void add_token(token_list *tokens, uint8_t kind, int64_t start, int64_t end, uint64_t head) {
    int64_t place = tokens->count++;
    tokens->kinds[place] = kind;
    tokens->heads[place] = head;
    tokens->places[2 * place] = (int32_t)start;
    tokens->places[2 * place + 1] = (int32_t)end;
}

/* Find the tokens of a folded text with characters that are tokens. */
static void split_characters(token_list *tokens, const token_tables *tables) {
    const uint8_t *text = tokens->text;
    int64_t word = -1, width;
    bool is_character = false;                              /* what stands before */
    for (int64_t at = 0; at <= tokens->size; at += width) { /* a space follows the text */
        uint32_t code = text[at];
        width = 1;
        if (code >= 0x80) code = decode_character(text + at, &width);
        bool is_han = code - 0x4E00 < 0x5200; /* U+4E00 to U+9FFF, most: the table is not in the first-level cache */
        uint8_t kind = is_han ? CHARACTER : code < tables->class_count ? tables->classes[code] : SEPARATOR;
        if (kind == WORD) {
            if (word < 0) word = at;
            is_character = false;
            continue;
        }
        if (word >= 0) add_token(tokens, 0, word, at, head_of(text + word, at - word));
        word = -1;
        if (kind == PART && is_character) {
            tokens->places[2 * tokens->count - 1] = (int32_t)(at + width);
            tokens->heads[tokens->count - 1] = 0;
        } else if (kind == CHARACTER || kind == PART) {
            add_token(tokens, 1, at, at + width, ~(uint64_t)code);
        } else if (is_mark(code)) {
            add_mark(tokens, at, tokens->count);
        }
        is_character = kind == CHARACTER || kind == PART;
    }
}

/* Tokenise valid UTF-8. False if the tables cannot fold the text: then `characters.fold` folds it in Python, and
 * another call tokenises it with an identity table. */
bool tokenise(const uint8_t *text, int64_t size, const token_tables *tables, token_list *tokens) {
    tokens->count = tokens->special_count = tokens->mark_count = 0;
    tokens->has_characters = false;
    tokens->size = fold(text, size, tables, tokens->text, &tokens->has_characters);
    if (tokens->size < 0) return false;
    if (tokens->has_characters) split_characters(tokens, tables);
    else split_words(tokens);
    take_tokens(tokens, tables);
    return true;
}

/* Turn tokens into letters, one space between two words. A character of a script without spaces stays as it is. */
void spell(const token_list *tokens, uint64_t seed, unit_list *letters) {
    int64_t size = 0;
    for (int64_t token = 0; token < tokens->count; token++) {
        letters->starts[token] = (int32_t)size;
        letters->kinds[size] = tokens->kinds[token];
        if (tokens->kinds[token]) {
            letters->hashes[size++] = tokens->hashes[token];
            continue;
        }
        int64_t width;
        for (int64_t at = tokens->places[2 * token]; at < tokens->places[2 * token + 1]; at += width) {
            uint32_t code = tokens->text[at];
            width = 1;
            if (code >= 0x80) code = decode_character(tokens->text + at, &width);
            letters->kinds[size] = 0;
            letters->hashes[size++] = mix((code ^ seed) * GOLDEN);
        }
        if (token + 1 < tokens->count && !tokens->kinds[token + 1]) {
            letters->kinds[size] = 0;
            letters->hashes[size++] = mix((' ' ^ seed) * GOLDEN);
        }
    }
    letters->starts[tokens->count] = (int32_t)size;
    letters->count = size;
    letters->has_characters = tokens->has_characters;
}

/* Find the UTF-8 of Python's strings and its size, without a copy of ASCII strings. read: Python's
 * PyUnicode_AsUTF8AndSize, which keeps the UTF-8 as long as the string lives. Returns how many were read: fewer than
 * `count` if one has no UTF-8; then Python's error is set. The caller holds Python's lock. */
CORE_API int64_t utf8_of_strings(void *const *strings, int64_t count, const char *(*read)(void *, ptrdiff_t *),
                                 const uint8_t **texts, int64_t *sizes) {
    for (int64_t k = 0; k < count; k++) {
        ptrdiff_t size = 0;
        texts[k] = (const uint8_t *)read(strings[k], &size);
        if (!texts[k]) return k;
        sizes[k] = size;
    }
    return count;
}

/* Find the tokens of one text and nothing else. `tokens` has room for `most_tokens` and for the folded text with SLACK.
 * Returns 1 if the tables can fold the text, else 0. */
CORE_API int64_t tokens_of_text(const uint8_t *text, int64_t size, const token_tables *tables, token_list *tokens) {
    return size > MOST_TEXT_BYTES ? CORE_BAD_SIZE : tokenise(text, size, tables, tokens);
}

/* Find the start and end of each token among the code points of a text: (count, 2) at most 8 times as many as code
 * points. They are the tokens of the fingerprint; two that one character is folded to ("½") have one place. Returns how
 * many there are. */
CORE_API int64_t word_spans(const uint32_t *codes, int64_t count, const uint32_t *folds, int64_t fold_count,
                            const uint32_t *longer_folds, int64_t *spans) {
    int64_t found = 0;
    uint32_t before = SEPARATOR, last = 0; /* the kind of the character before, and its code */
    for (int64_t at = 0; at < count; at++) {
        const uint32_t *entry = folds + min_i64(codes[at], fold_count - 1);
        int64_t parts = 1;
        bool is_bound = (*entry >> KIND_SHIFT & 3) == CONTEXT && found && spans[2 * found - 1] == at; /* ｶ and ﾞ */
        if (codes[at] == NON_JOINER && at && codes[at - 1] >= 0x0600 && codes[at - 1] <= 0x06FF) before = SEPARATOR;
        if (*entry & EXPANDS) {
            parts = *entry & 15;
            entry = longer_folds + ((*entry & CODE_MASK) >> 4);
        }
        for (; parts; parts--, entry++) {
            uint32_t kind = class_of(*entry), code = *entry & CODE_MASK;
            if (kind == IGNORED) continue; /* it neither bounds nor splits a word */
            bool is_apart = before != WORD || (code >= 0x80 && last >= '0' && last <= '9'); /* as in `write_entry` */
            bool goes_on = is_bound || (kind == WORD && !is_apart) || (kind == PART && before == CHARACTER);
            if (kind == PART) kind = CHARACTER;
            if (kind != SEPARATOR && !goes_on) spans[2 * found++] = at;
            if (kind != SEPARATOR) spans[2 * found - 1] = at + 1;
            before = kind;
            last = code;
        }
    }
    return found;
}

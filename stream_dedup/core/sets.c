/* Packed sets: the distinct shingles of a body as the short byte string that the index stores, for an exact Jaccard.
 *
 * With `fingerprint.verify = "exact"`, one is stored for each body instead of its sketch.
 *
 * The code: truncate the hashes to their upper 24 bits and sort them; encode each difference to the previous one with a
 * Golomb-Rice code: the part above k bits in unary (zeros, then a one), then the k bits, lowest bits first. n random
 * numbers take about log2(2^24 / n) + 1.5 bits each: 16 for a text of 600 words. k depends on n, which is in the
 * signature. A changed code must raise SETS_VERSION in fingerprint/scheme.py.
 *
 * The cost of truncation: hashes that become equal remain separate members, and sizes are counted before truncation, so
 * no common shingle is missed. Two sets with a and b members that the other lacks seem to share about a*b / 2^24 too
 * many: at 600 shingles each and a Jaccard of .8, 67*67 / 2^24 = .0003 of a member. It changes the decision only for a
 * pair that is a single shingle below the threshold. 16 bits would save half of the bytes, and share .07 too many.
 *
 * For a body with more than 65,536 distinct shingles (a book), only the smallest hashes are stored: 78 KB of usual text.
 * Who chooses words by their hashes can make it a fifth of the text (`most_set_bytes`). Such a body fits into a record of
 * the changelog wherever its text fitted into one of the input. Two such sets are compared on the range of hashes that
 * both have stored, which is a fair sample (bottom-k, Broder 1997): the Jaccard is accurate to .002.
 *
 * Sources: Golomb, "Run-length encodings", 1966; Rice, "Some practical universal noiseless coding techniques", 1979. */
#include "core.h"

/* k of the Golomb-Rice code of a set: 2^k is at most ln 2 times the mean difference, the optimum for such gaps. */
static int64_t rice_bits(int64_t count) {
    int64_t gap = (11ll << HASH_BITS) / (16 * max_i64(count, 1)), bits = 0;
    while (gap >> (bits + 1) > 0) bits++;
    return bits;
}

/* Most bytes of a packed set of `count` shingles. A member takes the low k bits of its gap, a one, and gap >> k zeros.
 * The gaps sum to the last member, which is below 2^HASH_BITS, so all zeros together are at most 2^HASH_BITS >> k, however
 * the shingles were chosen. As 2^k is about .69 of the mean gap, a set has at most 64 KiB and .37 bytes a shingle. */
int64_t most_set_bytes(int64_t count) {
    int64_t low = rice_bits(count), ones = min_i64(count, MAX_MEMBERS) * (low + 1);
    return (ones + (1ll << HASH_BITS >> low) + 7) / 8;
}

int64_t pack_members(uint64_t *shingles, int64_t count, uint64_t *other, uint8_t *out, int64_t room) {
    uint8_t *at = out;
    int64_t low = rice_bits(count), stored = min_i64(count, MAX_MEMBERS);
    uint64_t mask = (1ull << low) - 1, buffer = 0, bits = 0, previous = 0;
    const uint64_t *sorted = sort_words(shingles, other, count, SET_FIRST_BYTE, 8);
    int64_t needed = stored * (low + 1);
    for (int64_t i = 0; i < stored; i++) {
        uint64_t member = member_of(sorted[i]);
        needed += (int64_t)((member - previous) >> low);
        previous = member;
    }
    if ((needed + 7) / 8 > room) return CORE_BAD_SIZE;
    previous = 0;
    for (int64_t i = 0; i < stored; i++) {
        uint64_t member = member_of(sorted[i]), gap = member - previous;
        previous = member;
        for (bits += gap >> low; bits >= 8; bits -= 8) { /* zeros */
            *at++ = (uint8_t)buffer;
            buffer >>= 8;
        }
        buffer |= (1 | (gap & mask) << 1) << bits;
        bits += (uint64_t)low + 1;
    }
    for (; bits; bits -= bits < 8 ? bits : 8) {
        *at++ = (uint8_t)buffer;
        buffer >>= 8;
    }
    return at - out;
}

/* Bits that are read from data[at:end], lowest first; `count` of them are in `word`. */
typedef struct bit_reader {
    const uint8_t *data;
    int64_t at, end;
    uint64_t word, count;
} bit_reader;

/* Given at most 32 bits, read on until there are more, or the data ends. */
static inline void refill(bit_reader *bits) {
    if (bits->at + 4 <= bits->end) {
        uint32_t four;
        memcpy(&four, bits->data + bits->at, sizeof four);
        bits->word |= (uint64_t)four << bits->count;
        bits->at += 4;
        bits->count += 32;
        return;
    }
    for (; bits->at < bits->end; bits->count += 8) bits->word |= (uint64_t)bits->data[bits->at++] << bits->count;
}

int64_t decode_set(const uint8_t *data, int64_t size, int64_t count, uint32_t *members) {
    uint64_t k = (uint64_t)rice_bits(count), mask = (1ull << k) - 1, value = 0;
    int64_t stored = min_i64(count, MAX_MEMBERS);
    bit_reader bits = {data, 0, size, 0, 0};
    for (int64_t i = 0; i < stored; i++) {
        uint64_t zeros = 0;
        if (bits.count <= 32) refill(&bits);
        while (!bits.word) {
            if (bits.at >= bits.end) return i; /* the data is truncated */
            zeros += bits.count;
            bits.count = 0;
            refill(&bits);
        }
        uint64_t lowest = (uint64_t)trailing_zeros(bits.word);
        zeros += lowest;
        bits.word = bits.word >> lowest >> 1; /* in two steps: a shift by 64 is undefined */
        bits.count -= lowest + 1;
        if (bits.count < k) refill(&bits);
        value += zeros << k | (bits.word & mask);
        bits.word >>= k;
        bits.count -= bits.count < k ? bits.count : k;
        members[i] = (uint32_t)value;
    }
    return stored;
}

int64_t count_equal(const uint32_t *left, int64_t left_count, const uint32_t *right, int64_t right_count) {
    const uint32_t *left_end = left + left_count, *right_end = right + right_count;
    int64_t equal = 0;
    while (left < left_end && right < right_end) {
        uint32_t a = *left, b = *right;
        equal += a == b;
        left += a <= b;
        right += b <= a;
    }
    return equal;
}

shared_members compare_members(const stored_set *left, const stored_set *right) {
    shared_members found = {.of_left = left->count, .of_right = right->count};
    bool is_left_cut = left->count < left->size, is_right_cut = right->count < right->size;
    if (is_left_cut || is_right_cut) { /* of a cut set, the smallest hashes are stored: bottom-k, Broder 1997 */
        uint32_t end = UINT32_MAX;
        if (found.of_left && is_left_cut) end = left->members[found.of_left - 1];
        if (found.of_right && is_right_cut && right->members[found.of_right - 1] < end)
            end = right->members[found.of_right - 1];
        while (found.of_left && left->members[found.of_left - 1] >= end) found.of_left--;
        while (found.of_right && right->members[found.of_right - 1] >= end) found.of_right--;
    }
    found.both = count_equal(left->members, found.of_left, right->members, found.of_right);
    return found;
}

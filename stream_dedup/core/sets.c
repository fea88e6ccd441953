/* Packed sets: the shingles of a body, whole, for an exact Jaccard; fingerprint/packed_sets.py describes the code. */
#include "core.h"

/* Bits that are read from data[at:end], lowest first; `count` of them are in `word`. */
typedef struct bit_reader {
    const uint8_t *data;
    int64_t at, end;
    uint64_t word, count;
} bit_reader;

/* Read on until there are at least 32 bits, or the data ends; before, there are at most 32. */
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
    int64_t stored = min_i64(count, SET_MOST_MEMBERS);
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

/* How many of the ascending members lie below `end`. */
static int64_t below(const uint32_t *members, int64_t count, uint32_t end) {
    int64_t low = 0;
    while (low < count) {
        int64_t middle = low + (count - low) / 2;
        if (members[middle] < end) low = middle + 1;
        else count = middle;
    }
    return low;
}

/* Of a set that is not stored whole only the range of hashes counts that both have stored: bottom-k, Broder 1997. */
int64_t count_shared(const stored_set *left, const stored_set *right, shared_members *found) {
    int64_t n = left->count, m = right->count, both = 0;
    if (n < left->size || m < right->size) {
        uint32_t end = UINT32_MAX;
        if (n > 0 && n < left->size) end = left->members[n - 1];
        if (m > 0 && m < right->size && right->members[m - 1] < end) end = right->members[m - 1];
        n = below(left->members, n, end);
        m = below(right->members, m, end);
    }
    for (int64_t x = 0, y = 0; x < n && y < m;) {
        uint32_t a = left->members[x], b = right->members[y];
        both += a == b;
        x += a <= b;
        y += b <= a;
    }
    *found = (shared_members){both, n, m};
    return both;
}

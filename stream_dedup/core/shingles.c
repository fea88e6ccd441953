/* Shingles: hashes of every few adjacent words, letters or characters of a text; and what is made of them: MinHash
 * sketch, band keys, anchors, SimHash (simhash.py).
 *
 * No hash is 0, which marks a free slot. A typing error changes three of the shingles of three words, and a post of
 * thirty words has 28. It changes five of the shingles of five letters, and the same post has a hundred and fifty.
 *
 * Band keys are index keys that two sets share with a probability that rises with their Jaccard. Anchors are index keys
 * that two texts share if one contains part of the other: the k smallest hashes of the runs of eight words (ten
 * characters) of a text, all in one table of the index in which any may meet any. If one text holds a share c of the
 * other's runs, each anchor of the smaller text is in the larger one with probability c, and it is an anchor there too
 * if it is small enough. So the index proposes what is contained, which MinHash bands miss: with k = 16, of the pairs
 * of which one holds .6 of the other at a Jaccard below .5, .98 to .996 on five of eight corpora and .95 to 1.0 on all
 * where one text is at most eight times the other; and all pairs from a Jaccard of .3 on.
 *
 * Sources: shingles over any kind of token, Broder, "On the resemblance and containment of documents", 1997; bands,
 * Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", chapter 3; one-permutation hashing with empty bins, Li,
 * Owen, Zhang 2012; b-bit values, Li, Koenig 2010; anchors, the bottom-k sketch of Broder's paper, used as keys.
 */
#include "core.h"

/* Write the shingles of a text in order, with repeats; return their number, at most one a unit. A text shorter than
 * its shingle is one shingle. */
int64_t every_shingle(const unit_list *units, shingle_widths widths, uint64_t *restrict out) {
    const uint64_t *hashes = units->hashes;
    int64_t count = units->count, size = 0;
    if (!units->has_characters && widths.words == 3 && count >= 3) { /* most texts: half of the time */
        for (; size < count - 2; size++)
            out[size] = mix(rolled(rolled(hashes[size], hashes[size + 1]), hashes[size + 2])) | 1;
        return size;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t width = units->kinds[i] ? widths.characters : widths.words;
        if (i + width > count) {
            if (i) continue;
            width = count;
        }
        uint64_t hash = hashes[i];
        for (int64_t j = i + 1; j < i + width; j++) hash = rolled(hash, hashes[j]);
        out[size++] = mix(hash) | 1;
    }
    return size;
}

/* Write each hash once, in order of first occurrence; return their number. `out` may be `hashes`, or NULL.
 *
 * table: of at least `count` hashes. It has chains, of positions, which are half as wide as hashes, so that it stays in
 * the first-level cache and is cleared quickly. The first loop has no branch; the second one looks at the few hashes
 * whose slot was taken. */
int64_t distinct(const uint64_t *hashes, int64_t count, slot_table table, uint64_t *out) {
    int64_t size = slots_for(count), doubtful = 0, repeated = 0;
    uint32_t *slots = table.slots, *before = slots + size, *places = before + count; /* the one before in its chain */
    memset(slots, 0, (size_t)size * sizeof *slots);
    for (int64_t i = 0; i < count; i++) {
        uint32_t *newest = slots + first_slot(hashes[i], table.secret, (uint64_t)size - 1);
        places[doubtful] = (uint32_t)i;
        doubtful += (before[i] = *newest) != 0;
        *newest = (uint32_t)i + 1;
    }
    for (int64_t k = 0; k < doubtful; k++) {
        uint32_t earlier = before[places[k]];
        while (earlier && hashes[earlier - 1] != hashes[places[k]]) earlier = before[earlier - 1];
        places[repeated] = places[k];
        repeated += earlier != 0;
    }
    if (!out) return count - repeated;
    int64_t members = 0, from = 0;
    for (int64_t k = 0; k <= repeated; from = places[k++] + 1) {
        int64_t kept = (k < repeated ? places[k] : count) - from;
        memmove(out + members, hashes + from, (size_t)kept * sizeof *out);
        members += kept;
    }
    return members;
}

/* ---- MinHash ---- */

/* A nibble of a bin's least hash: 1 to 15, log2(15) bits; 0 for an empty bin. */
static inline uint8_t nibble_of(uint64_t least) {
    return least == UINT64_MAX ? 0 : (uint8_t)(1 + (least >> 1 & 0xFFFF) % 15);
}

/* Write the one-permutation sketch of shingles, of which repeats change nothing: two bins a byte. bins: a power of two,
 * or 0 for no sketch; minima: scratch, one a bin. Nearly exact for texts with few shingles, because empty bins are
 * recognised. */
void sketch(const uint64_t *shingles, int64_t count, int64_t bins, uint64_t *minima, uint8_t *out) {
    if (!bins) return;
    int64_t shift = 64 - trailing_zeros((uint64_t)bins);
    memset(minima, 0xFF, (size_t)bins * sizeof *minima);
    for (int64_t i = 0; i < count; i++) {
        uint64_t place = shift == 64 ? 0 : shingles[i] >> shift, least = minima[place];
        minima[place] = shingles[i] < least ? shingles[i] : least; /* a branch would often be mispredicted */
    }
    for (int64_t i = 0; i < bins / 2; i++) {
        out[i] = (uint8_t)(nibble_of(minima[2 * i]) | nibble_of(minima[2 * i + 1]) << 4);
    }
}

/* Write one key for each band into an item's keys: a hash of its MinHash values; 0 (no key) without a shingle. narrow:
 * scratch, one a shingle. The compiler vectorises the inner loop, a multiplication and a minimum of 32 bits. */
void band_keys(const uint64_t *shingles, int64_t count, const band_recipe *bands, uint32_t *restrict narrow,
               uint32_t *keys) {
    uint32_t *out = keys + bands->first_column;
    int64_t band_count = bands->count / bands->rows;
    memset(out, 0, (size_t)band_count * sizeof *out);
    if (!count) return;
    for (int64_t i = 0; i < count; i++) narrow[i] = (uint32_t)(shingles[i] >> 20);
    for (int64_t band = 0; band < band_count; band++) {
        uint64_t hash = (uint64_t)(band + 1) * MIX_1;
        for (int64_t row = band * bands->rows; row < (band + 1) * bands->rows; row++) {
            uint32_t factor = bands->permutations[row], offset = bands->permutations[bands->count + row];
            uint32_t least = UINT32_MAX;
            for (int64_t i = 0; i < count; i++) {
                uint32_t value = (narrow[i] ^ offset) * factor;
                least = value < least ? value : least;
            }
            hash = mix(hash ^ least);
        }
        out[band] = narrowed(hash);
    }
}

/* Write the smallest distinct keys of some runs that are at most `limit`, at most `most`, ascending; return their
 * number. A run consists of the shingles i, i + step and i + last. */
static int64_t least_keys(const uint64_t *shingles, int64_t runs, int64_t step, int64_t last, uint32_t limit,
                          int64_t most, uint32_t *keys) {
    int64_t found = 0;
    for (int64_t i = 0; i < runs; i++) {
        uint32_t key = narrowed(mix(rolled(rolled(shingles[i], shingles[i + step]), shingles[i + last])));
        if (key > limit) continue;
        int64_t place = found;
        while (place && keys[place - 1] >= key) place--;
        if (place < found && keys[place] == key) continue;
        for (int64_t move = min_i64(found, most - 1); move > place; move--) keys[move] = keys[move - 1];
        keys[place] = key;
        found = min_i64(found + 1, most);
        if (found == most) limit = keys[most - 1] - 1;
    }
    return found;
}

/* Write the smallest distinct keys of the runs of a text, at most `most`, ascending; 0 for the rest. A text shorter
 * than a run is one run. The hash is mixed once more, so that anchors are independent of the bins of a sketch. */
void anchor_keys(const uint64_t *shingles, int64_t count, int64_t step, int64_t last, int64_t most, uint32_t *keys) {
    int64_t runs = count - last;
    memset(keys, 0, (size_t)most * sizeof *keys);
    if (!most || !count) return;
    if (runs <= 0) {
        uint64_t hash = 0;
        for (int64_t i = 0; i < count; i++) hash = rolled(hash, shingles[i]);
        keys[0] = narrowed(mix(hash));
        return;
    }
    /* Keys are spread evenly: of all, twice as many as are sought lie below this limit, but in texts that repeat
     * themselves. That saves most of the insertions. */
    uint64_t limit = (uint64_t)most * 2 * (UINT32_MAX / (uint64_t)runs);
    if (limit < UINT32_MAX && least_keys(shingles, runs, step, last, (uint32_t)limit, most, keys) == most) return;
    least_keys(shingles, runs, step, last, UINT32_MAX, most, keys);
}

/* ---- SimHash ---- */

typedef uint32_t lanes __attribute__((vector_size(16)));
enum { LANES = 4, VOTES = 64 / LANES };

/* Count a vote for each bit of a hash that is one. */
static inline void vote(uint64_t hash, lanes *votes) {
    for (int half = 0; half < 2; half++) {
        uint32_t bits = (uint32_t)(hash >> 32 * half);
        lanes bit = {1, 2, 4, 8};
        for (int k = 0; k < VOTES / 2; k++, bit <<= LANES) {
            votes[half * VOTES / 2 + k] -= (lanes)((bits & bit) == bit); /* -1 where it is */
        }
    }
}

/* The SimHash of shingles with repeats; 0 without one. */
uint64_t simhash(const uint64_t *shingles, int64_t count) {
    lanes votes[VOTES] = {{0}}; /* of 32 bits: a text has fewer shingles (MOST_TEXT_BYTES) */
    /* The lowest bit of a shingle's hash is always set; mixing once more makes every bit fair. */
    for (int64_t j = 0; j < count; j++) vote(mix(shingles[j]), votes);
    uint64_t out = 0;
    for (int bit = 0; bit < 64; bit++) {
        out |= (uint64_t)(2 * (int64_t)votes[bit / LANES][bit % LANES] > count) << bit;
    }
    return out;
}

#include "core.h"

/* One-permutation sketch; the same function as in shingles.c. */
void sketch(const uint64_t *shingles, int64_t count, int64_t bins, uint64_t *minima, uint8_t *out) {
    if (!bins) return;
    int shift = 64 - (int)trailing_zeros((uint64_t)bins);
    memset(minima, 0xFF, (size_t)bins * sizeof *minima);
    for (int64_t i = 0; i < count; i++) {
        uint64_t place = shingles[i] >> shift;
        minima[place] = shingles[i] < minima[place] ? shingles[i] : minima[place];
    }
    for (int64_t i = 0; i < bins / 2; i++) {
        uint64_t low = minima[2 * i], high = minima[2 * i + 1], byte = 0;
        if (low != UINT64_MAX) byte = 1 + (low >> 1 & 0xFFFF) % 15;
        if (high != UINT64_MAX) byte |= (1 + (high >> 1 & 0xFFFF) % 15) << 4;
        out[i] = (uint8_t)byte;
    }
}

/* Count passages in a table of fixed size. Boilerplate is what recurs in several originals; see dedup/boilerplate.py.
 *
 * A bucket has four entries, one cache line. In a full bucket a new passage replaces the one that was seen least
 * recently. The table depends on the last sightings alone, so the changelog restores the same one.
 */
#include "core.h"

enum {
    BUCKET_ENTRIES = 4,
    SEEN_SLOTS = 8 * MOST_PASSAGES,
};

static inline sighted *bucket_of(const boilerplate *table, uint32_t hash) {
    uint64_t spread = hash * GOLDEN >> 32;
    return table->entries + (spread & (uint64_t)(table->count / BUCKET_ENTRIES - 1)) * BUCKET_ENTRIES;
}

void touch_boilerplate(const boilerplate *table, uint32_t hash) { __builtin_prefetch(bucket_of(table, hash)); }

bool is_boilerplate(const boilerplate *table, uint32_t hash, uint32_t start) {
    const sighted *bucket = bucket_of(table, hash);
    for (int i = 0; i < BUCKET_ENTRIES; i++)
        if (bucket[i].hash == hash) return bucket[i].seen[SIGHTINGS - 1] >= start;
    return false;
}

/* The entry of a hash, or the one that it replaces. */
static sighted *entry_of(const boilerplate *table, uint32_t hash) {
    sighted *bucket = bucket_of(table, hash), *oldest = bucket;
    for (sighted *one = bucket; one < bucket + BUCKET_ENTRIES; one++) {
        if (one->hash == hash) return one;
        /* Ties go to the smallest hash, not to a position: that depends on what came before the window. */
        bool is_older = one->seen[0] < oldest->seen[0];
        if (is_older || (one->seen[0] == oldest->seen[0] && one->hash < oldest->hash)) oldest = one;
    }
    return oldest;
}

/* Record a sighting. Items may come late, so the times of an entry are sorted, the latest first. */
static void record_sighting(sighted *entry, uint32_t hash, uint32_t time) {
    if (entry->hash != hash) *entry = (sighted){hash, {0, 0, 0}};
    for (int i = 0; i < SIGHTINGS; i++) {
        uint32_t earlier = entry->seen[i];
        if (time < earlier) continue;
        entry->seen[i] = time;
        time = earlier;
    }
}

/* Hash p of those that lie `stride` bytes apart, at any address: those of a block are not aligned. */
static inline uint32_t hash_at(const uint32_t *hashes, int64_t stride, int64_t p) {
    uint32_t hash;
    memcpy(&hash, (const uint8_t *)hashes + p * stride, sizeof hash);
    return hash;
}

void add_original(const boilerplate *table, const uint32_t *hashes, int64_t stride, int64_t count, uint32_t time,
                  changes *log) {
    bool seen[SEEN_SLOTS] = {false};
    uint32_t passages[MOST_PASSAGES];
    count = min_i64(count, MOST_PASSAGES);
    /* The table exceeds the cache: reading all buckets ahead makes the cache misses overlap. */
    for (int64_t p = 0; p < count; p++) touch_boilerplate(table, passages[p] = hash_at(hashes, stride, p));
    for (int64_t p = 0; p < count; p++) {
        bool *slot = seen + passages[p] % SEEN_SLOTS, is_repeated = false;
        if (*slot) /* seldom, and then the hashes lie together: faster than a hash set */
            for (int64_t other = 0; other < p; other++) is_repeated |= passages[other] == passages[p];
        *slot = true;
        if (is_repeated) continue;
        sighted *entry = entry_of(table, passages[p]);
        if (log && log->count < log->room) log->list[log->count++] = (change){entry - table->entries, *entry};
        record_sighting(entry, passages[p], time);
    }
}

/* The same for n originals; hashes: of all, one after the other. */
CORE_API int64_t add_originals(const boilerplate *table, const uint32_t *hashes, int64_t hash_count,
                               const int64_t *counts, const uint32_t *times, int64_t n, changes *log) {
    int64_t first = 0;
    for (int64_t original = 0; original < n; original++) {
        int64_t count = counts[original];
        if (count < 0 || count > hash_count - first) return CORE_BAD_SIZE;
        add_original(table, hashes + first, sizeof *hashes, count, times[original], log);
        first += count;
    }
    return first;
}

/* Restore the entries that were noted, the last one first, and empty the log. */
CORE_API int64_t undo_changes(const boilerplate *table, changes *log) {
    int64_t undone = log->count;
    while (log->count > 0) {
        const change *last = log->list + --log->count;
        table->entries[last->entry] = last->before;
    }
    return undone;
}

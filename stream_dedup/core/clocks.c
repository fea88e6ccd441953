/* Find the effective time of each item, and the watermark. dedup/clocks.py states the rules. */
#include "core.h"

enum {
    STEADY_TIMES = 7, /* of the nine that lie within a window of the level */
    /* Weights are halved every 2^15 items of the task: "recent" means tens of thousands, more than one fetch takes from
     * a single partition. */
    HALVING_BITS = 15,
    LEAP_PARTS = 4, /* a leap of the watermark counts as a quarter of a window at most */
};

/* The level of a partition, the median of its last stated times, and whether it is steady. */
typedef struct {
    int64_t time;
    bool is_steady;
} level;

static inline int64_t distance(int64_t a, int64_t b) { return a > b ? a - b : b - a; }

static level level_of(const partition_clock *clock, int64_t window) {
    int64_t sorted[RING_SIZE], count = 0, close = 0;
    for (int64_t i = 0; i < RING_SIZE; i++) {
        int64_t time = clock->times[i], at = count;
        if (time == START) continue;
        for (; at > 0 && sorted[at - 1] > time; at--) sorted[at] = sorted[at - 1];
        sorted[at] = time;
        count++;
    }
    if (!count) return (level){START, false};
    int64_t median = sorted[count / 2];
    for (int64_t i = 0; i < count; i++) close += distance(sorted[i], median) <= window;
    return (level){median, count == RING_SIZE && close >= STEADY_TIMES};
}

/* The weight of a partition at item `now` of the task. */
static inline int64_t faded(const partition_clock *clock, int64_t now) {
    int64_t halvings = (now >> HALVING_BITS) - (clock->count >> HALVING_BITS);
    return clock->weight >> min_i64(halvings, 31);
}

/* Whether half of the recent items, of steady partitions, have reached a time. */
static bool is_reached(const partition_clock *clocks, const level *levels, int64_t partitions, int64_t now,
                       int64_t time) {
    int64_t reached = 0, all = 0;
    for (int64_t p = 0; p < partitions; p++) {
        if (!levels[p].is_steady) continue;
        int64_t weight = faded(clocks + p, now);
        all += weight;
        if (levels[p].time >= time) reached += weight;
    }
    return 2 * reached >= all;
}

/* What is odd about a stated time, so that the level of its partition counts instead. */
static inline int8_t oddness(int64_t time, const level *own, const clock_reading *reading) {
    if (time < 0) return MISSING;
    if (time > reading->latest) return FUTURE;
    return own->is_steady && distance(time, own->time) > reading->window ? ALONE : NOTHING;
}

/* Read an item: update the clock and level of its partition, and the watermark. */
static void read_item(clock_reading *reading, level *levels, int64_t item, int64_t now) {
    int64_t slot = reading->slots[item], time = reading->times[item];
    partition_clock *clock = reading->clocks + slot;
    level *own = levels + slot;
    /* 1. Is the stated time usable? */
    int8_t odd = oddness(time, own, reading);
    reading->effective[item] = !odd ? time : own->time > START ? own->time : max_i64(reading->watermark, 0);
    /* 2. Update the partition's level and weight. */
    if (0 <= time && time <= reading->latest) {
        memmove(clock->times, clock->times + 1, (RING_SIZE - 1) * sizeof *clock->times);
        clock->times[RING_SIZE - 1] = time;
        *own = level_of(clock, reading->window);
    }
    clock->weight = (int32_t)(faded(clock, now - 1) + 1);
    clock->count = now;
    /* 3. Advance the watermark to this level if half of the recent items have reached it. */
    if (own->is_steady && own->time > reading->watermark &&
        is_reached(reading->clocks, levels, reading->partitions, now, own->time)) {
        if (reading->watermark > START)
            reading->total += min_i64(own->time - reading->watermark, reading->window / LEAP_PARTS);
        reading->watermark = own->time;
    }
    if (!odd && reading->watermark > START && time < reading->watermark - reading->window) odd = LATE;
    reading->odd[item] = odd;
    reading->watermarks[item] = reading->watermark;
    reading->elapsed[item] = reading->total;
}

/* Read the times of the next items; the clocks, which may come from a changelog, are updated. */
CORE_API int64_t clocks_read(arena *scratch, clock_reading *reading) {
    arena_reset(scratch);
    level *levels = arena_take(scratch, reading->partitions, sizeof *levels);
    if (!levels) return CORE_NO_MEMORY;
    int64_t now = 0;
    for (int64_t p = 0; p < reading->partitions; p++) {
        const partition_clock *clock = reading->clocks + p;
        if (clock->count < 0 || clock->count > FAR_FUTURE || clock->weight < 0) return CORE_BAD_SIZE;
        for (int64_t i = 0; i < RING_SIZE; i++)
            if (clock->times[i] < START || clock->times[i] > FAR_FUTURE) return CORE_BAD_SIZE;
        levels[p] = level_of(clock, reading->window);
        now = max_i64(now, clock->count);
    }
    for (int64_t item = 0; item < reading->items; item++) {
        if (reading->slots[item] < 0 || reading->slots[item] >= reading->partitions) return CORE_BAD_SIZE;
        read_item(reading, levels, item, ++now);
    }
    return reading->items;
}

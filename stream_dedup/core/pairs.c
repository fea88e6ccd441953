/* Pairs: compare whole sets with each other, all with all, by prefix filtering. evaluate/exact.py names the source. */
#include "core.h"

/* The common members of two sets, whose ranks ascend. O(members). */
static int64_t shared_ranks(const set_corpus *corpus, int64_t i, int64_t j) {
    const int32_t *a = corpus->ranks + corpus->bounds[i], *a_end = corpus->ranks + corpus->bounds[i + 1];
    const int32_t *b = corpus->ranks + corpus->bounds[j], *b_end = corpus->ranks + corpus->bounds[j + 1];
    int64_t both = 0;
    while (a < a_end && b < b_end) {
        int32_t x = *a, y = *b;
        both += x == y;
        a += x <= y;
        b += y <= x;
    }
    return both;
}

/* The state of a search. postings: the earlier sets with each rank in their prefix; filled: the end of each list;
 * seen: the set for which a candidate was last compared. */
typedef struct {
    int64_t *postings, *filled, *seen;
    int64_t count, comparisons;
} progress;

/* Compare set i with the earlier sets that share a member of its prefix. */
static void compare_with_earlier(const set_corpus *corpus, const set_search *search, progress *state, int64_t i) {
    int64_t size = corpus->sizes[i];
    double best = 0;
    for (int64_t at = corpus->bounds[i]; at < corpus->ends[i]; at++) {
        int32_t rank = corpus->ranks[at];
        for (int64_t p = state->filled[rank] - 1; p >= corpus->lists[rank]; p--) {
            int64_t j = state->postings[p], other = corpus->sizes[j];
            if (state->seen[j] == i) continue;
            double least = search->floor * (double)max_i64(size, other) - search->rounding;
            if ((double)min_i64(size, other) < least) continue;
            state->seen[j] = i;
            state->comparisons--;
            int64_t both = shared_ranks(corpus, i, j);
            double alike = (double)both / (double)(size + other - both);
            if (alike < search->floor - search->rounding) continue;
            if (state->count < search->most) {
                search->first[state->count] = i;
                search->second[state->count] = j;
                search->jaccard[state->count++] = alike;
            }
            if (alike > best || (alike == best && j < search->nearest[i])) {
                best = alike;
                search->nearest[i] = j;
            }
        }
    }
}

/* Compare each set, in `order`, with those before it; return the number of pairs written down.
 *
 * The search ends after `most` pairs, if any are asked for, and after `comparisons`. is_first_only: a set with a near
 * one is not remembered. */
CORE_API int64_t pairs_search(arena *scratch, const set_corpus *corpus, const set_search *search) {
    arena_reset(scratch);
    int64_t lists = corpus->ranks_shared;
    progress state = {.postings = arena_take(scratch, corpus->lists[lists], sizeof(int64_t)),
                      .filled = arena_take(scratch, lists + 1, sizeof(int64_t)),
                      .seen = arena_take(scratch, corpus->sets, sizeof(int64_t)),
                      .comparisons = search->comparisons};
    if (!state.postings || !state.filled || !state.seen) return CORE_NO_MEMORY;
    memcpy(state.filled, corpus->lists, (size_t)(lists + 1) * sizeof *state.filled);
    for (int64_t i = 0; i < corpus->sets; i++) search->nearest[i] = state.seen[i] = -1;
    for (int64_t n = 0; n < search->ordered; n++) {
        if (state.comparisons <= 0 || (state.count == search->most && search->most > 0)) break;
        int64_t i = search->order[n];
        compare_with_earlier(corpus, search, &state, i);
        if (search->is_first_only && search->nearest[i] >= 0) continue;
        for (int64_t at = corpus->bounds[i]; at < corpus->ends[i]; at++)
            state.postings[state.filled[corpus->ranks[at]]++] = i;
    }
    return state.count;
}

/* All similar pairs among whole sets, by prefix filtering: for `evaluate`, not for the command `pairs`. The paper: see
 * tools/evaluate/exact.py. */
#include "core.h"

/* The state of a search. postings: the earlier sets that have each rank in their prefix; filled: the end of each list;
 * compared: the set that each one was last compared with. */
typedef struct {
    int64_t *postings, *filled, *compared;
    int64_t count, comparisons;
} progress;

/* Compare a set with the earlier sets that share a member of its prefix. */
static void compare_with_earlier(const set_corpus *corpus, const set_search *search, progress *state, int64_t set) {
    int64_t begin = corpus->bounds[set], end = corpus->bounds[set + 1], size = corpus->sizes[set];
    double best = 0;
    for (int64_t at = begin; at < corpus->ends[set]; at++) {
        uint32_t rank = corpus->ranks[at];
        for (int64_t p = state->filled[rank] - 1; p >= corpus->lists[rank]; p--) {
            int64_t other = state->postings[p], other_size = corpus->sizes[other];
            if (state->compared[other] == set) continue;
            double least = search->floor * (double)max_i64(size, other_size) - search->rounding;
            if ((double)min_i64(size, other_size) < least) continue;
            state->compared[other] = set;
            state->comparisons--;
            int64_t other_begin = corpus->bounds[other], other_end = corpus->bounds[other + 1];
            int64_t shared =
                count_equal(corpus->ranks + begin, end - begin, corpus->ranks + other_begin, other_end - other_begin);
            double jaccard = (double)shared / (double)(size + other_size - shared);
            if (jaccard < search->floor - search->rounding) continue;
            if (state->count < search->most) {
                search->first[state->count] = set;
                search->second[state->count] = other;
                search->jaccard[state->count++] = jaccard;
            }
            if (jaccard > best || (jaccard == best && other < search->nearest[set])) {
                best = jaccard;
                search->nearest[set] = other;
            }
        }
    }
}

/* Compare each set, in `order`, with those before it; return the number of pairs written down.
 *
 * The search ends after `most` pairs, if any are asked for, and after `comparisons`. is_first_only: a set that is near
 * an earlier one is not remembered. */
CORE_API int64_t pairs_search(arena *scratch, const set_corpus *corpus, const set_search *search) {
    arena_reset(scratch);
    int64_t lists = corpus->ranks_shared;
    progress state = {.postings = arena_take(scratch, corpus->lists[lists], sizeof(int64_t)),
                      .filled = arena_take(scratch, lists + 1, sizeof(int64_t)),
                      .compared = arena_take(scratch, corpus->sets, sizeof(int64_t)),
                      .comparisons = search->comparisons};
    if (arena_has_failed(scratch)) return CORE_NO_MEMORY;
    memcpy(state.filled, corpus->lists, (size_t)(lists + 1) * sizeof *state.filled);
    for (int64_t set = 0; set < corpus->sets; set++) search->nearest[set] = state.compared[set] = NONE;
    for (int64_t n = 0; n < search->ordered; n++) {
        if (state.comparisons <= 0 || (state.count == search->most && search->most > 0)) break;
        int64_t set = search->order[n];
        compare_with_earlier(corpus, search, &state, set);
        if (search->is_first_only && search->nearest[set] >= 0) continue;
        for (int64_t at = corpus->bounds[set]; at < corpus->ends[set]; at++)
            state.postings[state.filled[corpus->ranks[at]]++] = set;
    }
    return state.count;
}

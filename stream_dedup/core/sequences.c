/* The words of an item in order, as 16-bit codes: what an exact comparison of two texts needs, two bytes a word.
 *
 * A code of a word has 12 bits of its first five letters and 4 of the whole word, so that another ending can be told
 * from another word. Figures and negations have codes of their own range, because a replaced figure or a lost "not" is
 * news. A figure in groups (120,000 or 1,20,000) is the code of the whole number, and one code for each further group,
 * so that only another number is another figure. Two different words have one code in 1 of 61,440 cases, two figures in 1
 * of 3,072. No text can be read out of its codes; who guesses a text can check the guess.
 *
 * The codes stand in the item's body, which is stored beside its signature: the numbers of codes and of those of the
 * headline, 32 bits each, then the codes, then for exact comparison the packed set.
 */
#include "core.h"

static inline uint16_t figure_code(uint32_t value) {
    return (uint16_t)(FIGURE_CODES + value % (NEGATION_CODES - FIGURE_CODES));
}

void write_codes(const token_list *tokens, const uint32_t *stems, const number *numbers, int64_t number_count,
                 int64_t first, int64_t count, uint16_t *out) {
    const uint64_t *hashes = tokens->hashes;
    const uint8_t *kinds = tokens->kinds, *traits = tokens->traits;
    for (int64_t i = 0; i < count; i++) { /* most tokens: a loop without a branch */
        uint16_t word = (uint16_t)(((uint64_t)stems[i] * STEMS >> 32) << STEM_SHIFT | hashes[i] >> (64 - STEM_SHIFT));
        out[i] = kinds[i] ? (uint16_t)((hashes[i] >> 32) * FIGURE_CODES >> 32) : word;
    }
    for (int64_t k = 0; k < tokens->special_count && tokens->special[k] < count; k++) {
        int64_t i = tokens->special[k];
        if (traits[i] <= HINT) continue;
        if (traits[i] == NEGATION) out[i] = (uint16_t)(NEGATION_CODES + (hashes[i] >> 32) % (CODES - NEGATION_CODES));
        else if (traits[i] == FIGURE && !kinds[i]) out[i] = FURTHER_GROUP; /* unless a number begins there */
        else out[i] = figure_code(narrowed(hashes[i]));
    }
    for (int64_t k = 0; k < number_count && numbers[k].token - first < count; k++)
        out[numbers[k].token - first] = figure_code(numbers[k].value);
}

sequence sequence_of(const view *one) {
    sequence found = {NULL, 0, 0};
    uint32_t head[2];
    if (!one->body || one->body_bytes < SEQUENCE_HEAD) return found;
    memcpy(head, one->body, sizeof head);
    bool is_sound = head[0] <= MOST_SEQUENCE + HEADLINE_CODES && head[1] <= head[0] && head[1] <= HEADLINE_CODES;
    if (!is_sound || SEQUENCE_HEAD + 2 * (int64_t)head[0] > one->body_bytes) return found;
    return (sequence){one->body + SEQUENCE_HEAD, head[0], head[1]};
}

view set_of(const view *one) {
    int64_t taken = SEQUENCE_HEAD + 2 * sequence_of(one).count;
    if (!one->body || taken > one->body_bytes) return (view){one->signature, one->body, 0, one->is_old};
    return (view){one->signature, one->body + taken, one->body_bytes - taken, one->is_old};
}

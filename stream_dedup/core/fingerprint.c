/* Fingerprint a batch of texts in one pass: make everything that represents an item.
 *
 * Each headline and each text is tokenised once. Its tokens give a digest, sketches, a filter of its words, index keys,
 * passages, a sequence and, on request, SimHashes and packed sets. */
#include "core.h"

/* Room for what one item consists of, as large as the longest one needs. */
typedef struct {
    arena *scratch;
    const token_tables *tables;
    const fingerprint_recipe *recipe;
    fingerprint_outputs *out;
    token_list tokens;
    unit_list units;
    sentence_list sentences;
    uint64_t *features; /* of the headline */
    uint64_t *members;  /* distinct shingles */
    uint64_t *minima, *other;
    uint32_t *narrow, *words;
    uint16_t headline_codes[HEADLINE_CODES];
    int64_t headline_code_count;
    slot_table table;
    number *numbers; /* of the headline */
    uint64_t digest; /* of the headline */
    int64_t headline_size;
} scratch_lists;

static void take_letters(arena *scratch, int64_t units, int64_t tokens, unit_list *letters) {
    letters->hashes = arena_take(scratch, units, sizeof *letters->hashes);
    letters->kinds = arena_take(scratch, units, 1);
    letters->starts = arena_take(scratch, tokens + 1, sizeof *letters->starts);
}

/* Make room for a text of `longest` bytes. */
static bool make_room(scratch_lists *work, int64_t longest) {
    arena *scratch = work->scratch;
    const fingerprint_recipe *recipe = work->recipe;
    int64_t bytes = GROWTH * longest + 2 * SLACK, tokens = most_tokens(longest);
    int64_t units = recipe->of_letters ? bytes : tokens;
    token_list *list = &work->tokens;
    list->text = arena_take(scratch, bytes, 1);
    list->places = arena_take(scratch, 2 * tokens + 4, sizeof *list->places);
    list->hashes = arena_take(scratch, tokens, sizeof *list->hashes);
    list->heads = arena_take(scratch, tokens, sizeof *list->heads);
    list->kinds = arena_take(scratch, tokens, 1);
    list->traits = arena_take(scratch, tokens, 1);
    list->special = arena_take(scratch, tokens, sizeof *list->special);
    list->marks = arena_take(scratch, 2 * bytes, sizeof *list->marks);
    work->features = arena_take(scratch, tokens, sizeof *work->features);
    work->numbers = arena_take(scratch, tokens, sizeof *work->numbers);
    work->words = arena_take(scratch, tokens, sizeof *work->words);
    work->sentences.ends = arena_take(scratch, tokens + 1, sizeof *work->sentences.ends);
    work->sentences.is_sentence = arena_take(scratch, tokens + 1, 1);
    work->members = arena_take(scratch, units, sizeof *work->members);
    work->minima = arena_take(scratch, 2 * recipe->layout.body_bytes, sizeof *work->minima);
    work->table = take_slots(scratch, units);
    work->narrow = arena_take(scratch, units, sizeof *work->narrow);
    if (work->out->has_sets) work->other = arena_take(scratch, units, sizeof *work->other);
    if (recipe->of_letters) take_letters(scratch, units, tokens, &work->units);
    return !arena_has_failed(scratch);
}

/* Make room for more tokens, shingles, numbers and passages. */
static bool make_room_for_parts(arena *scratch, fingerprint_outputs *out, int64_t tokens, int64_t shingles,
                                int64_t numbers, int64_t passages) {
    out->words = arena_grow(scratch, out->words, &out->word_room, out->word_count, tokens, sizeof *out->words);
    out->shingles =
        arena_grow(scratch, out->shingles, &out->shingle_room, out->shingle_count, shingles, sizeof *out->shingles);
    out->numbers =
        arena_grow(scratch, out->numbers, &out->number_room, out->number_count, numbers, sizeof *out->numbers);
    out->passages =
        arena_grow(scratch, out->passages, &out->passage_room, out->passage_count, passages, sizeof *out->passages);
    return !arena_has_failed(scratch);
}

/* Add the tokens to a digest. Each position has its own term, so that the order matters. */
static uint64_t add_to_digest(uint64_t digest, const token_list *tokens) {
    uint64_t total = (uint64_t)tokens->count;
    for (int64_t i = 0; i < tokens->count; i++) {
        uint64_t hash = tokens->hashes[i] + (uint64_t)i * GOLDEN;
        total += (hash ^ (hash >> 32)) * MIX_1;
    }
    return mix(digest ^ total);
}

/* The form of a headline: all numbers and dates masked. 8 bits, 0 if it is too short. */
static uint8_t form_of(const token_list *tokens, int64_t size) {
    uint64_t hash = 0;
    for (int64_t i = 0; i < tokens->count; i++) {
        hash = mix((hash ^ (tokens->traits[i] >= NUMBER_WORD ? 1 : tokens->hashes[i])) * GOLDEN);
    }
    return size > 1 ? (uint8_t)max_i64((int64_t)(hash >> 56), 1) : 0;
}

/* Fill what is known of a headline, except which of its words the text has; its features stay in `work`. */
static void add_headline(scratch_lists *work, int64_t row) {
    const fingerprint_recipe *recipe = work->recipe;
    fingerprint_outputs *out = work->out;
    uint8_t *signature = out->signatures + row * recipe->layout.stride;
    int64_t size = find_headline_features(&work->tokens, work->tables->seed, work->table, work->features);
    uint16_t stored_size = (uint16_t)size;
    memcpy(signature + HEADLINE_SIZE_AT, &stored_size, sizeof stored_size);
    work->headline_size = size;
    work->digest = add_to_digest(work->tables->seed, &work->tokens);
    if (recipe->layout.simhash > 0) return;
    find_words(&work->tokens, work->tables->seed, work->words);
    uint32_t *words = out->headline_words + row * HEADLINE_FEATURES;
    uint32_t *values = out->headline_numbers + row * MOST_HEADLINE_NUMBERS;
    int64_t word_count = min_i64(size, HEADLINE_FEATURES);
    for (int64_t j = 0; j < word_count; j++) words[j] = narrowed(work->features[j]);
    int64_t found = find_numbers(&work->tokens, work->tables->seed, work->numbers);
    work->headline_code_count = min_i64(work->tokens.count, HEADLINE_CODES);
    write_codes(&work->tokens, work->words, work->numbers, found, 0, work->headline_code_count, work->headline_codes);
    for (int64_t j = 0; j < min_i64(found, MOST_HEADLINE_NUMBERS); j++) values[j] = work->numbers[j].value;
    signature[recipe->layout.form] = form_of(&work->tokens, size);
    band_keys(work->features, size, &recipe->bands, work->narrow, out->keys + row * out->key_columns);
}

/* Fill the SimHash of a text. */
static void add_simhash(scratch_lists *work, uint8_t *signature) {
    const fingerprint_recipe *recipe = work->recipe;
    int64_t size = every_shingle(&work->units, recipe->widths, work->members);
    uint64_t bits = simhash(work->members, size);
    memcpy(signature + recipe->layout.simhash, &bits, sizeof bits);
    uint32_t stored_size = (uint32_t)size;
    memcpy(signature + BODY_SIZE_AT, &stored_size, sizeof stored_size);
}

/* Fill the filter of the words and numbers of headline and text, the set of the text's words, and its parts. */
static void add_words(scratch_lists *work, int64_t row, uint8_t *signature) {
    const fingerprint_recipe *recipe = work->recipe;
    fingerprint_outputs *out = work->out;
    uint8_t *filter = signature + recipe->layout.words, word_set[WORD_SET_BYTES] = {0};
    uint16_t *places = out->words + out->word_count;
    find_words(&work->tokens, work->tables->seed, work->words);
    const uint32_t *hashes = work->words;
    uint8_t has_place[FILTER_BITS + 1] = {0}; /* a byte a bit: a bit would be read before it is written */
    for (int64_t j = 0, count = work->tokens.count; j < count; j++) {
        uint32_t hash = hashes[j];
        places[j] = hash ? (uint16_t)bit_of_word(hash) : NO_WORD;
        has_place[places[j]] = 0x80;
        word_set[hash >> 20] |= (uint8_t)((hash != 0) << (hash >> 17 & 7));
    }
    for (int64_t k = 0; k < FILTER_BYTES; k += 2) {
        uint16_t bits = (uint16_t)high_bits(load16(has_place + 8 * k));
        memcpy(filter + k, &bits, sizeof bits);
    }
    /* Made in the first-level cache: its bits lie anywhere in 4 KB, and the rows of all items are not in the cache. */
    memcpy(out->word_sets + row * WORD_SET_BYTES, word_set, sizeof word_set);
    const uint32_t *words = out->headline_words + row * HEADLINE_FEATURES;
    for (int64_t j = 0; j < HEADLINE_FEATURES && words[j]; j++) set_bit(filter, bit_of_word(words[j]));
    number *own = out->numbers + out->number_count;
    int64_t found = find_numbers(&work->tokens, work->tables->seed, own);
    const uint32_t *values = out->headline_numbers + row * MOST_HEADLINE_NUMBERS;
    uint64_t figures = 0;
    for (int64_t k = 0; k < found + MOST_HEADLINE_NUMBERS; k++) {
        uint32_t hash = k < found ? own[k].value : values[k - found];
        if (!hash) break; /* no further one of the headline */
        set_bit(filter, bit_of_word(hash));
        set_bit(filter, second_bit(hash));
        figures |= bit_of_number(hash);
    }
    memcpy(signature + recipe->layout.figures, &figures, sizeof figures);
    for (int64_t k = 0; k < found; k++) own[k].token += (int32_t)out->word_count;
    out->lasts[2 * row + 1] = out->number_count + found;
    out->firsts[2 * row + 1] = out->number_count;
    out->number_count += found;
    for (int64_t j = 0; j < min_i64(work->headline_size, HEADLINE_FEATURES); j++) {
        uint64_t place = work->features[j] >> 49; /* the lowest bit: whether the text has it */
        uint16_t stored = (uint16_t)(2 * place + has_bit(word_set, (int64_t)place));
        memcpy(signature + recipe->layout.headline + 2 * j, &stored, sizeof stored);
    }
}

/* Begin the body of an item with the sequence of its words; false if there is no memory. */
static bool add_sequence(scratch_lists *work, int64_t row) {
    fingerprint_outputs *out = work->out;
    bool is_kept = work->tokens.count <= MOST_SEQUENCE;
    int64_t headline = is_kept ? work->headline_code_count : 0, text = is_kept ? work->tokens.count : 0;
    int64_t size = SEQUENCE_HEAD + (int64_t)sizeof(uint16_t) * (headline + text);
    out->bodies = arena_grow(work->scratch, out->bodies, &out->body_room, out->body_bytes, size, 1);
    if (!out->bodies) return false;
    uint8_t *at = out->bodies + out->body_bytes;
    uint32_t head[] = {(uint32_t)(headline + text), (uint32_t)headline};
    memcpy(at, head, sizeof head);
    memcpy(at + SEQUENCE_HEAD, work->headline_codes, (size_t)headline * sizeof *work->headline_codes);
    uint16_t *codes = (uint16_t *)work->narrow; /* as long as there are tokens */
    const number *own = out->numbers + out->firsts[2 * row + 1];
    write_codes(&work->tokens, work->words, own, out->number_count - out->firsts[2 * row + 1], out->word_count, text, codes);
    memcpy(at + SEQUENCE_HEAD + 2 * headline, codes, (size_t)text * sizeof *codes);
    out->body_bounds[2 * row] = out->body_bytes;
    out->body_bounds[2 * row + 1] = out->body_bytes += size;
    return true;
}

/* Fill the sketch and the keys of a text's shingles, and pack them on request; return their number with repeats, or a
 * core_error. */
static int64_t add_shingles(scratch_lists *work, int64_t row, uint8_t *signature) {
    const fingerprint_recipe *recipe = work->recipe;
    fingerprint_outputs *out = work->out;
    const anchor_recipe *anchors = &recipe->anchors;
    uint32_t *keys = out->keys + row * out->key_columns;
    uint64_t *shingles = out->shingles + out->shingle_count;
    int64_t count = every_shingle(&work->units, recipe->widths, shingles);
    bool of_characters = work->units.has_characters;
    anchor_keys(shingles, count, of_characters ? anchors->character_step : anchors->step,
                of_characters ? anchors->character_last : anchors->last, anchors->keys, keys);
    int64_t size = distinct(shingles, count, work->table, out->has_sets ? work->members : NULL);
    uint32_t stored_size = (uint32_t)size;
    memcpy(signature + BODY_SIZE_AT, &stored_size, sizeof stored_size);
    sketch(shingles, count, 2 * recipe->layout.body_bytes, work->minima, signature + recipe->layout.body);
    if (out->has_sets) {
        int64_t begin = out->body_bytes;
        out->bodies = arena_grow(work->scratch, out->bodies, &out->body_room, begin, most_set_bytes(size), 1);
        if (!out->bodies) return CORE_NO_MEMORY;
        int64_t bytes = pack_members(work->members, size, work->other, out->bodies + begin, out->body_room - begin);
        if (bytes < 0) return bytes;
        out->body_bounds[2 * row + 1] = out->body_bytes = begin + bytes;
    }
    return count;
}

/* Cut a text into passages. */
static void add_passages(scratch_lists *work, int64_t row) {
    fingerprint_outputs *out = work->out;
    shingle_widths widths = work->recipe->widths;
    int64_t width = work->units.has_characters ? max_i64(widths.words, widths.characters) : widths.words;
    split_sentences(&work->tokens, &work->sentences);
    int64_t cut = cut_passages(&work->tokens, work->words, &work->units, width, &work->sentences, out->word_count,
                               out->shingle_count, out->passages + out->passage_count);
    out->firsts[2 * row] = out->passage_count;
    out->lasts[2 * row] = out->passage_count + cut;
    out->passage_count += cut;
}

/* Whether a text has a HINT in its first or last EDGE characters. A single character of a script without spaces is too
 * common, so one counts only beside another. The edges are folded again: the place of a token does not tell how many
 * characters came before it. */
static bool has_hint(const scratch_lists *work, const uint8_t *text, int64_t size) {
    const token_list *tokens = &work->tokens;
    const uint8_t *traits = tokens->traits, *kinds = tokens->kinds;
    int64_t first = 0, last = -1; /* where, in the folded text, the first edge ends and the last one begins */
    for (const uint8_t *at = traits; (at = memchr(at, HINT, (size_t)(traits + tokens->count - at))); at++) {
        int64_t i = at - traits;
        bool is_paired = (i && traits[i - 1] == HINT) || (i + 1 < tokens->count && traits[i + 1] == HINT);
        if (kinds[i] && !is_paired) continue;
        if (work->out->is_continued) return true; /* Python has folded this text: these are not the item's characters */
        if (last < 0) {
            int64_t begin = 0, end = size, count = 0;
            while (begin < size && (count += begins_character(text[begin])) <= EDGE) begin++;
            for (count = 0; end && count < EDGE;) count += begins_character(text[--end]);
            first = folded_size(text, begin, work->tables);
            last = tokens->size - folded_size(text + end, size - end, work->tables);
        }
        if (tokens->places[2 * i] < first || tokens->places[2 * i + 1] > last) return true;
    }
    return false;
}

/* Fingerprint one item, whose headline and text are k of the batch. Returns 1 if the tables cannot fold it, 0 if it is
 * filled, or a core_error. */
static int64_t add_item(scratch_lists *work, const text_batch *batch, int64_t k) {
    const fingerprint_recipe *recipe = work->recipe;
    fingerprint_outputs *out = work->out;
    token_list *tokens = &work->tokens;
    int64_t row = batch->rows[k];
    uint8_t *signature = out->signatures + row * recipe->layout.stride;
    if (!tokenise(batch->texts[2 * k], batch->sizes[2 * k], work->tables, tokens)) return 1;
    add_headline(work, row);
    if (!tokenise(batch->texts[2 * k + 1], batch->sizes[2 * k + 1], work->tables, tokens)) return 1;
    out->hints[row] = has_hint(work, batch->texts[2 * k + 1], batch->sizes[2 * k + 1]);
    uint64_t digest = add_to_digest(work->digest, tokens);
    memcpy(signature + DIGEST_AT, &digest, sizeof digest);
    if (recipe->of_letters) spell(tokens, work->tables->seed, &work->units);
    else work->units = (unit_list){tokens->hashes, tokens->kinds, tokens->count, tokens->has_characters, NULL};
    if (recipe->layout.simhash > 0) {
        add_simhash(work, signature);
        return 0;
    }
    int64_t most = tokens->count;
    if (!make_room_for_parts(work->scratch, out, most, work->units.count, most, most)) return CORE_NO_MEMORY;
    add_words(work, row, signature);
    if (!add_sequence(work, row)) return CORE_NO_MEMORY;
    int64_t shingles = add_shingles(work, row, signature);
    if (shingles < 0) return shingles;
    add_passages(work, row);
    out->shingle_count += shingles;
    out->word_count += tokens->count;
    return 0;
}

/* Fingerprint the items of a batch. Returns how many are not filled, because the tables cannot fold one of their texts;
 * out->unfolded says which. Another call, with other tables, fills them. */
CORE_API int64_t fingerprint_batch(arena *scratch, const text_batch *batch, const token_tables *tables,
                                   const fingerprint_recipe *recipe, fingerprint_outputs *out) {
    if (!out->is_continued) arena_reset(scratch);
    scratch_lists work = {.scratch = scratch, .tables = tables, .recipe = recipe, .out = out};
    int64_t longest = 0;
    for (int64_t i = 0; i < 2 * batch->count; i++) longest = max_i64(longest, batch->sizes[i]);
    if (longest > MOST_TEXT_BYTES) return CORE_BAD_SIZE;
    if (!make_room(&work, longest)) return CORE_NO_MEMORY;
    int64_t unfolded = 0;
    for (int64_t k = 0; k < batch->count; k++) {
        int64_t failed = add_item(&work, batch, k);
        if (failed < 0) return failed;
        if (failed) out->unfolded[unfolded++] = k;
    }
    return unfolded;
}

/* ---- parts of a fingerprint ---- */

/* Write the shingles of a text's tokens, in order, with repeats; return their number. `out` has room for one a byte of
 * the folded text. */
CORE_API int64_t shingles_of_text(arena *scratch, const token_list *tokens, uint64_t seed, int64_t words,
                                  int64_t characters, int64_t of_letters, uint64_t *out) {
    shingle_widths widths = {words, characters};
    unit_list units = {tokens->hashes, tokens->kinds, tokens->count, tokens->has_characters, NULL};
    if (!of_letters) return every_shingle(&units, widths, out);
    arena_reset(scratch);
    take_letters(scratch, tokens->size + 1, tokens->count, &units);
    if (arena_has_failed(scratch)) return CORE_NO_MEMORY;
    spell(tokens, seed, &units);
    return every_shingle(&units, widths, out);
}

/* Write the distinct features of a headline's tokens; return their number. `out` has room for one a token. */
CORE_API int64_t features_of_headline(arena *scratch, const token_list *tokens, uint64_t seed, uint64_t *out) {
    arena_reset(scratch);
    slot_table table = take_slots(scratch, tokens->count);
    return table.slots ? find_headline_features(tokens, seed, table, out) : CORE_NO_MEMORY;
}

"""Packed sets stay within their bound, whatever shingles a writer chooses, and no byte is written beyond the room."""

import subprocess
from pathlib import Path

from stream_dedup.core import build
from tests.core.compilers import compiled, needs_compiler

PROGRAM = """
#include "core.h"
#include <assert.h>
#include <stdlib.h>

enum { GUARD = 64 };
static uint64_t state = 7;
static uint64_t next(void) { return state = mix(state + GOLDEN); }

/* Pack `count` shingles whose stored hashes lie in the top 2^-skew of the range, and decode them. */
static void pack(int64_t count, int skew) {
    uint64_t *shingles = malloc((size_t)count * 8), *other = malloc((size_t)count * 8);
    for (int64_t i = 0; i < count; i++) shingles[i] = skew ? ~(next() >> skew) : next();
    int64_t room = most_set_bytes(count);
    uint8_t *out = malloc((size_t)room + GUARD);
    memset(out, 0xA5, (size_t)room + GUARD);
    int64_t bytes = pack_members(shingles, count, other, out, room);
    assert(0 <= bytes && bytes <= room && room <= (64 << 10) + 8 + count * 37 / 100);
    int64_t stored = min_i64(count, MAX_MEMBERS);
    uint32_t *members = malloc((size_t)stored * 4);
    assert(decode_set(out, bytes, count, members) == stored);
    const uint64_t *sorted = sort_words(shingles, other, count, 0, 8);
    for (int64_t i = 0; i < stored; i++) assert(members[i] == member_of(sorted[i]));
    memset(out, 0xA5, (size_t)room + GUARD);
    assert(pack_members(shingles, count, other, out, bytes - 1) == CORE_BAD_SIZE);
    for (int64_t i = 0; i < room + GUARD; i++) assert(out[i] == 0xA5);
    free(shingles), free(other), free(out), free(members);
}

int main(void) {
    const int64_t counts[] = {1, 2, 600, MAX_MEMBERS - 1, MAX_MEMBERS, MAX_MEMBERS + 1, 400000, 1450000, 13000000};
    const int skews[] = {0, 1, 2, 8, 30, 41};
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 6; j++) pack(counts[i], skews[j]);
    return 0;
}
"""


@needs_compiler
def test_a_packed_set_fits_its_room_or_nothing_is_written(tmp_path: Path) -> None:
    program = compiled(tmp_path, PROGRAM, "-O2", "-g", build.FOLDER / "sets.c", build.FOLDER / "index.c",
                       build.FOLDER / "memory.c")  # fmt: skip
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

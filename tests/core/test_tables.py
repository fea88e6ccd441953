"""Hash tables of the core: chosen hashes cost no more steps than others, and no result depends on the secret."""

import shutil
import subprocess
from pathlib import Path

import pytest

from stream_dedup.core import build
from tests.core.compilers import compiled

PROGRAM = """
#include "core.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 1 << 16, COLUMNS = 4 };
static int64_t steps; /* blocks of code without a branch that were run */
__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void) { steps++; }

/* Hashes that somebody chose: the first slots of tables without a secret, one after the other or few of them. */
static uint64_t hash_of(int pattern, uint64_t i) {
    switch (pattern) {
    case 0: return mix(i + 1);
    case 1: return i << 40 | (i & 63) << 8;   /* by the bits from 8 on */
    case 2: return i << 48 | i >> 16;         /* by the lowest bits */
    case 3: return i + 1;                     /* by the highest bits */
    case 4: return i << 32;
    case 5: return (i + 1) * 0xF1DE83E19937733Dull; /* the inverse of GOLDEN: in turn */
    default: return (i % 97 + 1) * GOLDEN;    /* few hashes, often */
    }
}

static int64_t find_distinct(arena *scratch, int pattern, int64_t count, uint64_t *out) {
    arena_reset(scratch);
    slot_table table = take_slots(scratch, count);
    for (int64_t i = 0; i < count; i++) out[i] = hash_of(pattern, (uint64_t)i);
    return distinct(out, count, table, out);
}

CORE_API int64_t link_items(arena *, const uint32_t *, int64_t, const int64_t *, int64_t, const int64_t *, int32_t *);

static int64_t link(arena *scratch, int pattern, int64_t count, int32_t *links) {
    static uint32_t keys[MOST];
    const int64_t first_columns[] = {0, COLUMNS}, dont_care_bits[COLUMNS] = {0};
    int shift = pattern == 3 ? 0 : 32;
    for (int64_t i = 0; i < count; i++) keys[i] = (uint32_t)(hash_of(pattern, (uint64_t)i) >> shift) | 1;
    return link_items(scratch, keys, count / COLUMNS, first_columns, 1, dont_care_bits, links);
}

int main(void) {
    static uint64_t found[2][MOST];
    static int32_t links[2][MOST];
    arena *scratch = arena_new(0x243F6A8885A308D3), *other = arena_new(0x13198A2E03707344);
    int64_t usual[2];
    for (int pattern = 0; pattern < 7; pattern++) {
        steps = 0;
        int64_t members = find_distinct(scratch, pattern, MOST, found[0]), taken[2] = {steps, 0};
        assert(find_distinct(other, pattern, MOST, found[1]) == members);
        assert(!memcmp(found[0], found[1], (size_t)members * sizeof(uint64_t)));
        steps = 0;
        link(scratch, pattern, MOST, links[0]);
        taken[1] = steps;
        link(other, pattern, MOST, links[1]);
        assert(!memcmp(links[0], links[1], sizeof links[0]));
        if (!pattern) memcpy(usual, taken, sizeof taken);
        printf("%d: %ld %ld\\n", pattern, (long)taken[0], (long)taken[1]);
        fflush(stdout);
        /* A repeated hash is looked for in its chain, which takes twice the steps of a new one. */
        assert(taken[0] <= (pattern == 6 ? 2.5 : 1.3) * usual[0] && taken[1] <= 1.3 * usual[1]);
    }
    return 0;
}
"""
SOURCES = [build.FOLDER / f"{name}.c" for name in ("shingles", "candidates", "memory")]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc, which counts steps: apt-get install gcc")
def test_chosen_hashes_take_the_steps_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.core.compilers.COMPILER", ["gcc"])
    program = compiled(tmp_path, PROGRAM, "-O1", "-fsanitize-coverage=trace-pc", *SOURCES)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

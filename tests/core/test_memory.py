"""Scratch memory: aligned, apart, reused, and refused where there is none."""

import subprocess
from pathlib import Path

from stream_dedup.core import build
from tests.core.compilers import compiled, needs_compiler

PROGRAM = """
#include "core.h"
#include <assert.h>

static uint64_t state = 7;
static int64_t below(int64_t limit) {
    state = mix(state + GOLDEN);
    return (int64_t)(state % (uint64_t)limit);
}

/* Fill buffers of random sizes, each with a byte of its own, and see that none has written into another. */
static void fill(arena *scratch, int64_t largest) {
    uint8_t *taken[64];
    int64_t sizes[64];
    for (int64_t i = 0; i < 64; i++) {
        sizes[i] = below(largest);
        taken[i] = arena_take(scratch, sizes[i], 1);
        assert(taken[i] && (uintptr_t)taken[i] % 64 == 0);
        memset(taken[i], (int)i, (size_t)sizes[i]);
    }
    for (int64_t i = 0; i < 64; i++)
        for (int64_t j = 0; j < sizes[i]; j++) assert(taken[i][j] == i);
}

int main(void) {
    arena *scratch = arena_new(1);
    arena_reset(scratch);
    for (int64_t round = 0; round < 50; round++) {
        fill(scratch, 1 + (1 << (round % 20)));
        arena_reset(scratch);
    }
    /* Once it is large enough, it is one block, and the same one. */
    void *first = arena_take(scratch, 1000, 8);
    arena_reset(scratch);
    assert(arena_take(scratch, 1000, 8) == first);
    assert(!arena_has_failed(scratch));
    /* What cannot be: a negative number, more than there is, a product that does not fit. */
    assert(!arena_take(scratch, -1, 8));
    assert(!arena_take(scratch, INT64_MAX, 1));
    assert(!arena_take(scratch, INT64_MAX - 63, 1));
    assert(!arena_take(scratch, INT64_MAX / 2, 8));
    assert(!arena_take(scratch, 1ll << 60, 4));
    assert(arena_take(scratch, 0, 8) && arena_has_failed(scratch));
    /* An array that grows keeps what it has. */
    int64_t room = 0, *numbers = NULL;
    for (int64_t i = 0; i < 1000; i++) {
        numbers = arena_grow(scratch, numbers, &room, i, 1, sizeof *numbers);
        numbers[i] = i;
    }
    for (int64_t i = 0; i < 1000; i++) assert(numbers[i] == i);
    /* Beyond 64 MiB it is given back, and the next function begins anew. */
    assert(arena_take(scratch, 100ll << 20, 1));
    arena_reset(scratch);
    fill(scratch, 1000);
    arena_free(scratch);
    arena_free(NULL);
    return 0;
}
"""


@needs_compiler
def test_scratch_memory_is_apart_aligned_reused_and_refused(tmp_path: Path) -> None:
    program = compiled(tmp_path, PROGRAM, "-O1", "-g", build.FOLDER / "memory.c")
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

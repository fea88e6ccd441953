"""Time text-dedup's MinHash kernel on documents: FILE (a JSON list of lists of texts) -> {"seconds": [a document]}.

128 permutations over word 3-shingles, with the faster of its two hash functions (xxh3, 32 bits).
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from text_dedup.minhash import embed_func
from text_dedup.utils import xxh3_32hash

_PERMUTATIONS, _ROWS = 128, 8
_PRIME, _MAX = np.uint32((1 << 32) - 5), np.uint32((1 << 32) - 1)


def main(path: str) -> None:
    random = np.random.RandomState(42)
    permutations = (
        random.randint(1, _PRIME, size=_PERMUTATIONS, dtype=np.uint32),
        random.randint(0, _PRIME, size=_PERMUTATIONS, dtype=np.uint32),
    )
    ranges = [(i, i + _ROWS) for i in range(0, _PERMUTATIONS, _ROWS)]

    def run(texts: list[str]) -> None:
        for n, text in enumerate(texts):
            embed_func(
                text, n, num_perm=_PERMUTATIONS, ngram_size=3, min_length=0, hashranges=ranges,
                permutations=permutations, hash_func=xxh3_32hash, dtype=np.uint32, max_hash=_MAX, modulo_prime=_PRIME,
            )  # fmt: skip

    seconds = []
    for texts in json.loads(Path(path).read_text("utf-8")):
        run(texts[:20])
        start = time.perf_counter()
        run(texts)
        seconds.append((time.perf_counter() - start) / len(texts))
    sys.stdout.write(json.dumps({"seconds": seconds}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

"""Time text-dedup's MinHash deduplication: FILE THRESHOLD NGRAM PERMUTATIONS -> {"seconds", "clusters"}.

The script runs the command that its users run; imports are not counted.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path


def by_command(path: Path, threshold: float, ngram: int, permutations: int) -> tuple[float, list[int]]:
    """Run the whole command with all processors, its default; return the seconds and each row's cluster."""
    with tempfile.TemporaryDirectory() as directory:
        # An empty cache, so that no round profits from an earlier one.
        os.environ |= {"HF_HOME": directory, "HF_HUB_OFFLINE": "1"}
        from text_dedup import minhash

        arguments = {
            "path": "json", "data_files": str(path), "split": "train", "cache_dir": f"{directory}/cache",
            "output": f"{directory}/out", "column": "text", "ngram": ngram, "num_perm": permutations,
            "threshold": threshold,
        }  # fmt: skip
        start = time.perf_counter()
        minhash.main([f"--{name}={value}" for name, value in arguments.items()], standalone_mode=False)
        seconds = time.perf_counter() - start
    rows = len(path.read_bytes().splitlines())
    return seconds, [minhash.uf.find(row) for row in range(rows)]


if __name__ == "__main__":
    file, threshold, ngram, permutations = sys.argv[1:]
    seconds, clusters = by_command(Path(file), float(threshold), int(ngram), int(permutations))
    sys.stdout.write("\n" + json.dumps({"seconds": seconds, "clusters": clusters}) + "\n")

"""RETSim's likeness of pairs of texts, timed: FILE -> {"seconds" (a text), "cosines"}.

FILE is JSON: {"texts": [...], "pairs": [[place of one, place of the other], ...]}. UniSim's own call in batches of its
own size, with all processors, as is its default. Loading the model is not counted.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

os.environ["BACKEND"] = "onnx"  # the one that is installed; read when unisim is imported

from unisim import TextSim


def main(path: str) -> None:
    asked = json.loads(Path(path).read_text("utf-8"))
    model, texts = TextSim(store_data=False), asked["texts"]
    model.embed(texts[:20])
    start = time.perf_counter()
    vectors = np.asarray(model.embed(texts))
    seconds = (time.perf_counter() - start) / len(texts)
    one, other = np.array(asked["pairs"]).T
    cosines = (vectors[one] * vectors[other]).sum(axis=1)  # the vectors have length 1
    sys.stdout.write("\n" + json.dumps({"seconds": seconds, "cosines": cosines.tolist()}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

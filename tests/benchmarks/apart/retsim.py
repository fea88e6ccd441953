"""Time RETSim's similarity of pairs of texts: FILE -> {"seconds" (a text), "cosines"}.

FILE is JSON: {"texts": [...], "pairs": [[index of one text, index of the other], ...]}. The script calls UniSim's own
function with its default batch size and all processors. Loading the model is not counted.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

os.environ["BACKEND"] = "onnx"  # the installed backend; unisim reads this when it is imported

from unisim import TextSim


def main(path: str) -> None:
    request = json.loads(Path(path).read_text("utf-8"))
    model, texts = TextSim(store_data=False), request["texts"]
    model.embed(texts[:20])
    start = time.perf_counter()
    vectors = np.asarray(model.embed(texts))
    seconds = (time.perf_counter() - start) / len(texts)
    left, right = np.array(request["pairs"]).T
    cosines = (vectors[left] * vectors[right]).sum(axis=1)  # the vectors have length 1
    sys.stdout.write("\n" + json.dumps({"seconds": seconds, "cosines": cosines.tolist()}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

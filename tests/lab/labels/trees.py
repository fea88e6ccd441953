"""Write fitted trees as the tables that `dedup/rule.py` reads."""

from pathlib import Path

import msgspec
import numpy as np

from stream_dedup.dedup import rule
from stream_dedup.dedup.rule import Trees

NOVELTY_TABLE, KINSHIP_TABLE = (Path(rule.__file__).with_name(f"{model}.json") for model in ("novelty", "kinship"))


def write_trees(path: Path, trees: Trees, names: list[str]) -> None:
    """Write a table, one tree per line, with four digits after the point."""
    rounded = [np.round(part.astype(float), 4).tolist() for part in trees[1:]]
    lines = [",\n".join(msgspec.json.encode(row).decode() for row in part) for part in (trees[0].tolist(), *rounded)]
    parts = ",\n".join(f'"{name}": [\n{text}\n]' for name, text in zip(Trees._fields, lines, strict=True))
    path.write_text(f'{{"names": {msgspec.json.encode(names).decode()},\n{parts}}}\n', "utf-8")

"""What `pairs --clusters` finds in a folder of corpora: do clusters agree with the labels, and with their members?

    python -m tests.lab.figures.archives FOLDER [NAME ...] [--lost]

For each corpus it prints

- precision and recall of "the same article" by the labels: are the two items of a labelled pair in one cluster?
- **unlike**: members that share neither a word of the headline nor 30 % of their article with their representative.
  Counted are words of five letters or more (all words, if none has as many) and pairs of ideographs; and runs of three
  words of sentences that no three headlines have. The program's own measures play no part.
- the largest clusters, to be read; with --lost, the labelled pairs that clusters get wrong.
"""

import argparse
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from stream_dedup.settings import load_settings
from stream_dedup.tools.batch.pairs import find_pairs
from stream_dedup.tools.evaluate.labels import Label, read_labels
from stream_dedup.tools.inputs.lines import read_lines
from tests.lab.labels.files import FRESH, MEASURED, SAME_FILES, TAUGHT, corrected

Record = Mapping[str, Any]

_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？।])\s*\n*|\n+")
_LONG_WORD, _RUN, _FEWEST_TOKENS, _SITES_OWN, _ENOUGH = 5, 3, 8, 3, 0.3


def labels_by_corpus(folder: Path) -> dict[str, list[Label]]:
    """All labelled pairs, each once."""
    files = [(name, None) for name in (*MEASURED, *TAUGHT, *FRESH)]
    pairs: dict[str, dict[tuple[str, str], Label]] = defaultdict(dict)
    for name, corpus in [*files, *SAME_FILES.items()]:
        for label in corrected(read_labels(folder / name)):
            pairs[corpus or str(label.corpus)].setdefault((label.earlier, label.later), label)
    return {corpus: list(some.values()) for corpus, some in pairs.items()}


def _headline_words(title: str) -> set[str]:
    """Words that two headlines may share, by their beginnings: languages inflect them."""
    tokens = [token for token in _TOKEN.findall(title.lower()) if not token.isdigit()]
    ideographs = {a + b for a, b in pairwise(tokens) if len(a) == len(b) == 1}
    return {word[:_LONG_WORD] for word in tokens if len(word) >= _LONG_WORD} | ideographs or set(tokens)


def _sentences(record: Record) -> list[list[str]]:
    return [
        tokens
        for sentence in _SENTENCE_END.split(record.get("text") or "")
        if len(tokens := _TOKEN.findall(sentence.lower())) >= _FEWEST_TOKENS
    ]


def _runs(sentences: Iterable[list[str]]) -> set[tuple[str, ...]]:
    return {tuple(tokens[at : at + _RUN]) for tokens in sentences for at in range(len(tokens) - _RUN + 1)}


class Texts:
    """The records of a corpus by id, and which sentences are a site's own."""

    def __init__(self, path: Path) -> None:
        self.records: dict[str, Record] = {record["id"]: record for record in map(json.loads, read_lines(path))}
        headlines: defaultdict[str, set[str]] = defaultdict(set)
        for record in self.records.values():
            for tokens in _sentences(record):
                headlines[" ".join(tokens)].add(record.get("title") or "")
        self._of_site = {sentence for sentence, some in headlines.items() if len(some) >= _SITES_OWN}

    def title(self, name: str) -> str:
        return " ".join((self.records[name].get("title") or "").split())[:80]

    def are_unlike(self, member: str, kept: str) -> bool:
        """Whether the two share neither a word of their headlines nor enough of the member's article."""
        one, other = self.records[member], self.records[kept]
        if _headline_words(one.get("title") or "") & _headline_words(other.get("title") or ""):
            return False
        own = [tokens for tokens in _sentences(one) if " ".join(tokens) not in self._of_site]
        runs = _runs(own) or _runs([_TOKEN.findall((one.get("text") or "").lower())])  # a table has no sentences
        whole = _TOKEN.findall(f"{other.get('title') or ''} {other.get('text') or ''}".lower())
        return len(runs & _runs([whole])) < _ENOUGH * len(runs) or not runs


def measured(path: Path, labels: Iterable[Label], lost: bool) -> list[str]:
    """The lines about a corpus."""
    with tempfile.TemporaryDirectory() as folder:
        clusters = Path(folder) / "clusters.jsonl"
        found = find_pairs([path], Path(folder) / "pairs.jsonl", clusters, settings=load_settings())
        rows = {row["id"]: row for row in map(json.loads, read_lines(clusters))}
    texts, joined, wrong = Texts(path), {(True, True): 0, (True, False): 0, (False, True): 0}, []
    for label in labels:
        if label.earlier in rows and label.later in rows:
            is_joined = rows[label.earlier]["story"] == rows[label.later]["story"]
            joined[label.same, is_joined] = joined.get((label.same, is_joined), 0) + 1
            if label.same != is_joined:
                wrong.append(f"  {'lost' if label.same else 'joined'} {label.label} {label.earlier} {label.later}")
    right = joined[True, True]
    precision, recall = right / max(1, right + joined[False, True]), right / max(1, right + joined[True, False])
    members = [row for row in rows.values() if row["representative"] != row["id"]]
    unlike = [row for row in members if texts.are_unlike(row["id"], row["representative"])]
    lines = [
        f"{path.name}: {found.items} items, {found.clusters} clusters, {len(members)} members, {found.new} with news; "
        f"labels {sum(joined.values())}: precision {precision:.3f}, recall {recall:.3f}; unlike {len(unlike)}"
    ]
    lines += [f"  {one.items} items, {one.headlines} headlines: {one.title[:80]}" for one in found.largest]
    for row in unlike:
        stays = "stays" if row["keep"] else "dropped"
        lines.append(f"  unlike ({stays}): {texts.title(row['id'])} | {texts.title(row['representative'])}")
    return lines + (wrong if lost else [])


def main() -> None:
    """Print the lines about the corpora of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="corpora, without .jsonl.gz; by default those with labels")
    parser.add_argument("--lost", action="store_true")
    options = parser.parse_args()
    labels = labels_by_corpus(options.folder)
    for name in options.names or sorted(labels):
        print(*measured(options.folder / f"{name}.jsonl.gz", labels.get(name, ()), options.lost), sep="\n", flush=True)


if __name__ == "__main__":
    main()

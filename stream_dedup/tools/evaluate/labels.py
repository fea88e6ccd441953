"""Read label files, and warn of odd labels. `rates.py` compares labels with verdicts.

A label file is JSON Lines with these fields; others are ignored:

- `earlier`, `later`: ids of one corpus. `label`: `copy`, `cut` and `update` mean the same article.
- `new` (optional): whether a reader of the earlier item would miss something in the later one (see rates.py).
- `weight` (optional): the number of items that the row stands for. `unsure`, `lang` (optional).
- `sample` (optional): the decisions from which the pair was drawn: `held`, `near`, `risk`, `update` or `named`.
- `corpus` (optional): the name of the corpus, if one file covers several.

Common words of other label files (same, duplicate, 1, ...) are understood; any other word is an error, because it would
silently distort the figures.
"""

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError

SAME_ARTICLE = ("copy", "cut", "update")
ANOTHER_ARTICLE = ("template", "furniture", "different")  # "furniture" is the label files' word for boilerplate
NEW, LITTLE_NEW, NOTHING_NEW = "yes", "little", "no"
"""Would a reader of the earlier item miss something? little: a background sentence that no reader would miss."""

_WORDS = {
    "label": SAME_ARTICLE + ANOTHER_ARTICLE,
    "new": (NEW, NOTHING_NEW, LITTLE_NEW),
    "sample": ("held", "near", "risk", "update", "named"),
}
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")
# Words of other label files and their meaning here. "same" and "different" carry no more than `copy` and `different`.
_SYNONYMS = {
    "label": {
        **dict.fromkeys(("same", "duplicate", "dup", *_YES), SAME_ARTICLE[0]),
        **dict.fromkeys(("distinct", *_NO), ANOTHER_ARTICLE[-1]),
        "boilerplate": ANOTHER_ARTICLE[1],
    },
    "new": {**dict.fromkeys(_YES[:2], NEW), **dict.fromkeys(_NO[:2], NOTHING_NEW)},
    "sample": {},
}


def words_of(field: str) -> str:
    """List the allowed words of a field of a label file.

    >>> words_of("new")
    'yes, no, little (1, true, 0, false are understood too)'
    """
    synonyms = ", ".join(_SYNONYMS[field])
    return ", ".join(_WORDS[field]) + (f" ({synonyms} are understood too)" if synonyms else "")


class Label(msgspec.Struct, frozen=True):
    """A labelled pair; the docstring of the module explains the fields."""

    earlier: str
    later: str
    label: str
    weight: float = 1.0
    unsure: bool = False
    new: str | None = None
    sample: str | None = None
    lang: str | None = None
    corpus: str | None = None

    @property
    def same(self) -> bool:
        return self.label in SAME_ARTICLE


def read_labels(path: Path, corpus: str | None = None) -> list[Label]:
    """Read the labels of a file; with `corpus` only the rows of that corpus.

    Raises InputError, which names the malformed line, or the corpora of the file if it lacks `corpus`.
    """
    labels = []
    try:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if line.strip():
                try:
                    labels.append(_label_of(msgspec.json.decode(line, type=dict[str, Any])))
                except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                    raise InputError(f"{path}, line {number}: not a labelled pair: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read the labels {path}: {error.strerror}") from None
    if corpus is None:
        return labels
    chosen = [label for label in labels if label.corpus == corpus]
    if not chosen:
        named = _corpora(labels)
        raise InputError(
            f"{path} has no label of the corpus {corpus!r}; "
            + (f"it has labels of {', '.join(named)}" if named else "its labels name no corpus: leave --corpus out")
        )
    return chosen


def _label_of(row: dict[str, Any]) -> Label:
    """Interpret a row. Raises ValueError that names the field and its allowed words."""
    for field in ("earlier", "later", *_WORDS):
        if isinstance(row.get(field), int):  # ids and answers may be numbers or booleans
            row[field] = str(row[field])
        if field in _WORDS and isinstance(row.get(field), str):
            word = row[field].strip().lower()
            word = _SYNONYMS[field].get(word, word)
            if word not in _WORDS[field]:
                raise ValueError(f"`{field}` is {row[field]!r}; allowed: {words_of(field)}")
            row[field] = word
    return msgspec.convert(row, Label)


def by_first_delivery(verdicts: Iterable[Verdict]) -> dict[str, Verdict]:
    """Map each id to the verdict on its first delivery that could be read.

    The id alone settles a later delivery, so its verdict says nothing about the item of a label.
    """
    found: dict[str, Verdict] = {}
    for verdict in verdicts:
        if verdict.id not in found or found[verdict.id].kind is Kind.BAD:
            found[verdict.id] = verdict
    return found


def require_known(labels: Sequence[Label], known: Container[str]) -> None:
    """Raise InputError, with the cure, if there is no label or a later item is not among `known`."""
    unknown = [label.later for label in labels if label.later not in known]
    if not unknown and labels:
        return
    named = _corpora(labels)
    cure = (
        f"the labels are of {', '.join(named)}: choose with --corpus NAME"
        if named
        else "labels must name ids of this corpus (`stream-dedup check` shows which field is the id)"
    )
    first = f", the first: {unknown[0]}" if unknown else ""
    raise InputError(f"{len(unknown)} of {len(labels)} labels name a later item that the corpus lacks{first}; {cure}")


def remarks(labels: Sequence[Label], known: Container[str]) -> list[str]:
    """Return warnings about labels that are valid but may not be what the user meant.

    >>> remarks([Label("x", "b", "copy")], {"a", "b"})[0]
    '1 label names an earlier item that the corpus lacks, the first: x'
    """
    warnings = []
    unknown = [label.earlier for label in labels if label.earlier not in known]
    if unknown:
        names = "label names" if len(unknown) == 1 else "labels name"
        warnings.append(f"{len(unknown)} {names} an earlier item that the corpus lacks, the first: {unknown[0]}")
    if twice := [label.later for label in labels if label.earlier == label.later]:
        are = "label is" if len(twice) == 1 else "labels are"
        warnings.append(
            f"{len(twice)} {are} of two deliveries of one id, and left out: the first delivery counts; "
            f"the first: {twice[0]}"
        )
    if labels and not any(label.new for label in labels):
        warnings.append("no label has `new`, so missed and repeated cannot be computed")
    return warnings


def _corpora(labels: Iterable[Label]) -> list[str]:
    return sorted({label.corpus for label in labels if label.corpus})

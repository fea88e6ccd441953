"""Make fingerprints of items: signatures to compare and store, and keys to look up candidates in the index.

`Fingerprinter` passes items to the core in batches and returns `Fingerprints`. The columns of keys are, in order: body
(anchors, or the tables of a SimHash layout), headline bands, exact text, id. The last two work like
the others: a key has 32 bits of a 64-bit hash, and the 64 bits in the signature confirm a match.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.fingerprint.characters import (
    NO_TABLE,
    Folds,
    character_classes,
    encoded,
    fold,
    folding_table,
    identity_table,
)
from stream_dedup.fingerprint.headlines import cut_tail, headline_of
from stream_dedup.fingerprint.kernel import (
    Anchors,
    Bands,
    Recipe,
    Tables,
    Texts,
    TokenList,
    Widths,
    fingerprint_batch,
    headline_features_of,
    layout_of,
    lexicon,
    shingles_of,
    tokens_of,
)
from stream_dedup.fingerprint.scheme import ANCHORS, HEADLINE_BANDS, HEADLINE_ROWS, Scheme
from stream_dedup.news.item import Item

WORD_SET_BYTES = 4096
"""Bytes of a bit set of 15-bit word hashes; a text of 500 distinct words fills 1.5 % of it."""


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Fingerprints of n items. The comparison of new items uses word sets and texts; they are not stored.

    signatures: (n,) of the scheme's signature_dtype.
    keys: (n, columns) uint32, 0 = no key.
    word_sets: (n, 4096) uint8, bit sets of the texts' words.
    hamming: the largest Hamming distance of two similar bodies.
    bodies: n, see `Scheme.has_bodies`, else empty.
    texts: their parts; None in a family without novelty.
    hints: (n,) which texts may say that they correct an earlier item.
    """

    signatures: NDArray[np.void]
    keys: NDArray[np.uint32]
    word_sets: NDArray[np.uint8]
    hamming: int
    bodies: list[bytes] = dataclasses.field(default_factory=list)
    texts: Texts | None = None
    hints: NDArray[np.bool_] | None = None

    @property
    def is_empty(self) -> NDArray[np.bool_]:
        """Which items have neither a headline nor a body, (n,)."""
        empty: NDArray[np.bool_] = (self.signatures["headline_size"] == 0) & (self.signatures["body_size"] == 0)
        return empty


def key_of(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the index keys of ids or digests: the upper 32 bits, never 0."""
    keys: NDArray[np.uint64] = np.maximum(hashes >> np.uint64(32), 1)
    return keys


class Fingerprinter:
    """Makes fingerprints under one scheme; it has constant tables and no state of the stream.

    >>> from stream_dedup.settings import FingerprintSettings
    >>> make = Fingerprinter(Scheme(FingerprintSettings()))
    >>> item = Item("1", "Bridge opens", "The bridge over the Elm opened on Monday.", "a.example", 0)
    >>> int(make([item]).signatures["body_size"][0])
    6
    """

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        self._classes = character_classes()
        self._lexicon: dict[str, Any] = {}
        self._of_folded = self._tables(identity_table(self._classes))
        self._lexicon = lexicon(self._of_folded)
        self._of_folded.set(**self._lexicon)
        self._of_ascii = self._tables(NO_TABLE)
        self._of_all: Tables | None = None

        words, characters = scheme.shingle_widths
        self._recipe = Recipe(
            widths=Widths(words=words, characters=characters),
            bands=Bands(
                permutations=scheme.permutations(),
                count=HEADLINE_BANDS * HEADLINE_ROWS,
                rows=HEADLINE_ROWS,
                first_column=0 if scheme.layout else scheme.columns["headline"].start,
            ),
            anchors=Anchors(keys=0 if scheme.layout else ANCHORS, **scheme.anchor_runs._asdict()),
            of_letters=scheme.has_letters,
            layout=layout_of(scheme.signature_dtype),
        )

    def __call__(self, items: Sequence[Item]) -> Fingerprints:
        """Return fingerprints of the items, in their order. O(bytes · tables) with a small constant."""
        scheme, columns, layout = self.scheme, self.scheme.columns, self.scheme.layout
        signatures = np.zeros(len(items), scheme.signature_dtype)
        signatures["row_id"] = [scheme.identity(item.id) for item in items]
        sources = {name: scheme.identity(name) if name else 0 for name in {item.source for item in items}}
        signatures["source"] = [sources[item.source] for item in items]
        for name in ("time", "partition", "offset"):
            signatures[name] = [getattr(item, name) for item in items]
        keys = np.zeros((len(items), scheme.key_columns), np.uint32)
        word_sets = np.empty((len(items), 0 if layout else WORD_SET_BYTES), np.uint8)
        texts, bodies, hints = None, list[bytes](), None
        if scheme.is_given:
            _take_given(items, signatures)
        else:
            views = _views_of(items, scheme)
            tries = [self._tables_for(views), self._of_folded]
            rows = signatures, keys, word_sets
            texts, bodies, hints = fingerprint_batch(views, tries, self._recipe, rows, scheme.is_exact)
        if layout:
            keys[:, columns["body"]] = np.where(
                signatures["body_size"][:, None] == 0, 0, layout.keys(signatures["simhash"][:, 0])
            )
        if "text" in columns:
            keys[:, columns["text"].start] = key_of(signatures["digest"])
        keys[:, -1] = key_of(signatures["row_id"])
        texts = None if layout else texts
        return Fingerprints(signatures, keys, word_sets, scheme.settings.hamming, bodies, texts, hints)

    def exact(self, item: Item) -> "ExactViews":
        """Return the whole sets that the sketches represent, for an exact comparison. O(bytes)."""
        seed, widths = self.scheme.token_seed, self.scheme.shingle_widths
        headline = frozenset(headline_features_of(self.tokens(headline_of(item)), seed).tolist())
        tokens = self.tokens(_text_of(item, self.scheme))
        body = shingles_of(tokens, seed, widths, self.scheme.has_letters)
        return ExactViews(headline, frozenset(body.tolist()), tokens.count)

    def tokens(self, text: str) -> TokenList:
        """Return the tokens of a text. O(bytes)."""
        tokens = tokens_of(encoded(text), self._tables_for([text]))
        return tokens if tokens.is_folded else tokens_of(encoded(fold(text)), self._of_folded)

    def _tables(self, folds: Folds) -> Tables:
        entries, longer = folds
        counts = {"class_count": len(self._classes), "fold_count": len(entries)}
        seed = self.scheme.token_seed
        return Tables(classes=self._classes, folds=entries, longer_folds=longer, seed=seed, **counts, **self._lexicon)

    def _tables_for(self, views: Sequence[str]) -> Tables:
        """Return the tables that fold these texts. Those for more than ASCII are built when one needs them."""
        if self._of_all is None:
            if all(map(str.isascii, views)):
                return self._of_ascii
            self._of_all = self._tables(folding_table())
        return self._of_all


@dataclass(frozen=True, slots=True)
class ExactViews:
    """Hashes of an item's distinct headline features and body shingles, and the number of tokens of its text."""

    headline: frozenset[int]
    body: frozenset[int]
    tokens: int


def _take_given(items: Sequence[Item], signatures: NDArray[np.void]) -> None:
    """Write the items' own fingerprints to the signatures; as digests, too, so that equal ones are the same text."""
    given = [item.fingerprint is not None for item in items]
    values = np.array([item.fingerprint or 0 for item in items], np.uint64)
    signatures["simhash"][:, 0] = values
    signatures["digest"] = values
    signatures["headline_size"], signatures["body_size"] = 0, given


def _views_of(items: Sequence[Item], scheme: Scheme) -> list[str]:
    """Return headline and text of each item."""
    return [view for item in items for view in (headline_of(item), _text_of(item, scheme))]


def _text_of(item: Item, scheme: Scheme) -> str:
    """Return the text of the shingles."""
    return cut_tail(item.text, item.source) or (headline_of(item) if scheme.has_letters else "")

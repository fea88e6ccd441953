"""Make fingerprints of items: signatures to compare and store, and keys to look up candidates in the index.

`Fingerprinter` passes items to the compiled kernel in batches and returns `Fingerprints`. The columns of keys are, in
order: body (anchors and MinHash bands, or the tables of a SimHash layout), headline bands, exact text, id. The last two
work like the others: a key has 32 bits of a 64-bit hash, and the 64 bits in the signature confirm a match. Headlines
lose the site's name at their end first.
"""

import dataclasses
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batches import batches
from stream_dedup.fingerprint.characters import (
    NO_TABLE,
    character_classes,
    fold_with_python,
    folding_table,
    identity_table,
    segment,
    word_classes,
)
from stream_dedup.fingerprint.kernel import MOST_HEADLINE_NUMBERS, Outputs, Parts, Recipe, fingerprint_batch
from stream_dedup.fingerprint.scheme import HEADLINE_FEATURES, Scheme
from stream_dedup.fingerprint.sentences import PASSAGE_FIELDS, Passages
from stream_dedup.fingerprint.shingles import (
    Anchors,
    Bands,
    Letters,
    ShingleWidths,
    every_shingle,
    letters_for,
    slots_for,
    spell,
)
from stream_dedup.fingerprint.simhash import IDF, TF, UNIFORM, SimHashSink
from stream_dedup.fingerprint.tokens import SLACK, TextBatch, Tokens, TokenTables, tokenise, tokens_for
from stream_dedup.fingerprint.word_filter import Numbers, headline_features
from stream_dedup.news.item import Item

WORD_SET_BYTES = 4096
"""Bytes of a bit set of 15-bit word hashes; a text of 500 distinct words fills 1.5 % of it."""
# Items of one kernel call: the call encodes, joins, reads and hashes their texts, some 500 KB, while they are in the
# second-level cache. An item of English news takes 19 µs in calls of 128 items, 20 with 64 or 250, 25 with 500.
_CHUNK = 128
_CHUNK_BYTES = 2**19
# Separators in front of a site's name: "Headline - Site", "Headline | Section | Site", "标题_网站".
# Space is bounded, because the search would scan a megabyte of it again from each of its characters.
_SEPARATOR = re.compile(r"\s{1,8}[-–—|·•»:]{1,2}\s{1,8}|\s{0,8}[|｜_]\s{0,8}")
# The first mark of a separator. Searching for one character costs a tenth of trying a separator at every position. Four
# headlines in ten contain no such character, and finding that out costs a sixth of the search.
_ANY_MARK = re.compile(r"[|｜_–—·•»:-]")
_MARK = re.compile(r"[|｜_]|(?<=\s)[-–—·•»:]")
_DIGIT = re.compile(r"\d")
# Forms of a text, in the languages of Latin script that most news is in: with a colon behind, they are all that is cut.
_FORMS = (
    "op|ed|opinions?|editorials?|comment|commentary|column|columnist|contributor|guest|essay|analysis|explainer|feature|"
    "exclusive|watch|video|photos?|podcast|interview|meinung|kommentar|analyse|leitartikel|kolumne|gastbeitrag|"
    "opinión|análisis|columna|tribuna|vídeo|chronique|tribune|éditorial|opinione|editoriale|analisi|opinião|análise"
)
_LABEL = re.compile(
    rf"\W?(?:\w{{1,30}}(?:[ -]\w{{1,30}}){{0,2}}\s?[|｜]|(?:{_FORMS})(?:[ -](?:{_FORMS})){{0,2}}\s?[:：])\s{{0,8}}",
    re.I,
)
# A site's name is short; a longer last part belongs to the headline.
_SUFFIX_WORDS = 5
_SUFFIX_CHARACTERS = 10  # the same in scripts without spaces
# Pages append up to five parts, sections and site. Without a limit, a megabyte of "x | y - " would take 12 s.
_MAX_SUFFIXES = 16
# The rest must still be a headline.
_HEADLINE_WORDS = 4
_HEADLINE_CHARACTERS = 8


class Texts(NamedTuple):
    """What n texts consist of. New items are compared by it; it is not stored.

    words: uint16, the bit in a word filter of the word (or pair of characters) that begins with each token, or NO_WORD.
    shingles: uint64, in order, with repeats. passages: see sentences.py; those of text i are firsts[i, 0] to
    lasts[i, 0] (exclusive). numbers: the numbers, and the tokens with which they begin; those of text i are
    firsts[i, 1] to lasts[i, 1]. headline_words, headline_numbers: (n, 24) and (n, 8) uint32, ended by 0.
    """

    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]
    headline_words: NDArray[np.uint32]
    headline_numbers: NDArray[np.uint32]
    words: NDArray[np.uint16]
    shingles: NDArray[np.uint64]
    numbers: Numbers
    passages: Passages

    @classmethod
    def nothing(cls, n: int) -> "Texts":
        """n texts of which nothing is known."""
        none, no_figures = np.zeros((n, 2), np.int64), np.zeros((n, 0), np.uint32)
        return cls.joined(none, none, no_figures, no_figures, [])

    @classmethod
    def joined(
        cls,
        firsts: NDArray[np.int64],
        lasts: NDArray[np.int64],
        headline_words: NDArray[np.uint32],
        headline_numbers: NDArray[np.uint32],
        parts: Sequence[Parts],
    ) -> "Texts":
        """Concatenate the parts of several kernel calls, which count from the first one."""
        words = np.concatenate([np.zeros(0, np.uint16), *(part.words for part in parts)])
        shingles = np.concatenate([np.zeros(0, np.uint64), *(part.shingles for part in parts)])
        numbers = np.concatenate([np.zeros((0, 2), np.int64), *(part.numbers for part in parts)]).T
        passages = np.concatenate([np.zeros((0, PASSAGE_FIELDS), np.int64), *(part.passages for part in parts)]).T
        types = (np.int64, np.uint32, np.bool_, np.bool_, np.int64, np.int64)
        return cls(
            firsts, lasts, headline_words, headline_numbers, words, shingles,
            Numbers(numbers[0].astype(np.uint32), numbers[1].astype(np.int32)),
            Passages(*(column.astype(kind) for column, kind in zip(passages, types, strict=True))),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Fingerprints of n items.

    signatures: (n,) of the scheme's signature_dtype; keys: (n, columns) uint32, 0 = no key; words: (n, 4096) uint8, bit
    sets of the texts' words (shingles.mark_words); hamming: the largest Hamming distance at which the SimHashes of two
    bodies count as similar; bodies: the n packed bodies (packed_sets.py) if bodies are compared exactly, else empty;
    texts: None if novelty is not asked. The comparison of new items uses words and texts; they are not stored.
    """

    signatures: NDArray[np.void]
    keys: NDArray[np.uint32]
    words: NDArray[np.uint8]
    hamming: int
    bodies: list[bytes] = dataclasses.field(default_factory=list)
    texts: Texts | None = None

    @property
    def is_empty(self) -> NDArray[np.bool_]:
        """Which items have neither a headline nor a body to judge by, (n,)."""
        empty: NDArray[np.bool_] = (self.signatures["headline_size"] == 0) & (self.signatures["body_size"] == 0)
        return empty


def key_of(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The index keys of ids or digests: their upper 32 bits, never 0."""
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
        s = scheme.settings
        self._classes = word_classes() if scheme.has_chinese_words else character_classes()
        self._folded = identity_table(self._classes)
        self._seed = np.uint64(scheme.token_seed)

        def bands(view: str, number: int, count: int, rows: int) -> Bands:
            if scheme.layout:
                return Bands(scheme.permutations(0, 0, 1), 1, 0)
            return Bands(scheme.permutations(number, count, rows), rows, scheme.columns[view].start)

        headline = bands("headline", 0, s.headline_bands, s.headline_rows)
        body = bands("body", 2, s.body_bands, s.body_rows)
        anchors = Anchors(0 if scheme.layout else s.anchors, *scheme.anchor_runs)
        widths = scheme.feature_widths if scheme.layout else scheme.shingle_widths
        self._recipe = Recipe(widths, headline, body, anchors)
        self._of_letters = scheme.has_letter_features if scheme.layout else scheme.has_letters
        self._weighting = {"uniform": UNIFORM, "tf": TF, "idf": IDF}[s.weights]
        no_weights = np.zeros(2, np.uint64), np.zeros(2, np.uint16), 0
        self._idf = (*scheme.weights.table, scheme.weights.unseen) if scheme.weights else no_weights

    def __call__(self, items: Sequence[Item]) -> Fingerprints:
        """Fingerprints of the items, in their order. O(bytes · tables) with a small constant."""
        n = len(items)
        out, simhashes = self._outputs(n), self._simhash_sink(n)
        is_exact = self.scheme.is_exact
        bodies = [b""] * n if is_exact else []
        parts, before, first = list[Parts](), np.zeros(4, np.int64), 0
        for chunk in batches(_views_of(items, self.scheme), _bytes_of_text, _CHUNK, _CHUNK_BYTES):
            rows, is_folded = np.arange(first, first + len(chunk)), self.scheme.has_chinese_words
            views: Sequence[tuple[bytes, ...]] = chunk
            while rows.size:
                batch, tables = self._kernel_input(views, rows, is_folded)
                set_ends = np.empty(len(rows) + 1, np.int64) if is_exact else None
                letters = letters_for(batch.bounds) if self._of_letters else None
                unfolded, part, packed = fingerprint_batch(
                    batch, tables, self._recipe, out, before, simhashes, set_ends, letters
                )
                before += [len(each) for each in part]
                parts.append(part)
                if set_ends is not None:
                    codes = packed.tobytes()
                    for row, (start, end) in zip(rows.tolist(), pairwise(set_ends.tolist()), strict=True):
                        bodies[row] = codes[start:end]
                views = [tuple(fold_with_python(view.decode()) for view in chunk[row - first]) for row in unfolded]
                rows, is_folded = unfolded, True
            first += len(chunk)
        signatures = self._signatures(items, out, simhashes)
        columns = self.scheme.columns
        if self.scheme.layout:
            body_keys = self.scheme.layout.keys(signatures["simhash"])
            out.keys[:, columns["body"]] = np.where(signatures["body_size"][:, None] == 0, 0, body_keys)
        if "text" in columns:
            out.keys[:, columns["text"].start] = key_of(signatures["digest"])
        out.keys[:, -1] = key_of(signatures["row_id"])
        known = out.firsts, out.lasts, out.headline_words, out.headline_numbers
        texts = None if self.scheme.layout else Texts.joined(*known, parts)
        return Fingerprints(signatures, out.keys, out.words, self.scheme.settings.hamming, bodies, texts)

    def _outputs(self, n: int) -> Outputs:
        """Empty arrays for n items."""
        dtype, names = self.scheme.signature_dtype, ("headline", "body", "words")
        widths = {name: dtype[name].shape[0] if name in (dtype.names or ()) else 0 for name in names}
        return Outputs(
            digests=np.empty(n, np.uint64),
            headline_sizes=np.empty(n, np.uint32),
            body_sizes=np.empty(n, np.uint32),
            headlines=np.empty((n, widths["headline"]), np.uint16),
            bodies=np.empty((n, widths["body"]), np.uint8),
            filters=np.empty((n, widths["words"]), np.uint8),
            figures=np.zeros(n, np.uint64),
            forms=np.zeros(n, np.uint8),
            keys=np.zeros((n, self.scheme.key_columns), np.uint32),
            words=np.empty((n, 0 if self.scheme.layout else WORD_SET_BYTES), np.uint8),
            headline_words=np.zeros((n, HEADLINE_FEATURES), np.uint32),
            headline_numbers=np.zeros((n, MOST_HEADLINE_NUMBERS), np.uint32),
            firsts=np.zeros((n, 2), np.int64),
            lasts=np.zeros((n, 2), np.int64),
        )

    def _simhash_sink(self, n: int) -> SimHashSink | None:
        """Where the kernel writes n SimHashes; None if the family has none, or the items bring their own."""
        if self.scheme.layout is None or self.scheme.is_given:
            return None
        simhashes = np.zeros((n, self.scheme.settings.bits // 64), np.uint64)
        return SimHashSink(self._weighting, *self._idf, simhashes)

    def _signatures(self, items: Sequence[Item], out: Outputs, simhashes: SimHashSink | None) -> NDArray[np.void]:
        """The signatures of the items, from what the kernel wrote."""
        signatures = np.zeros(len(items), self.scheme.signature_dtype)
        signatures["digest"] = out.digests
        signatures["headline_size"] = out.headline_sizes
        signatures["body_size"] = out.body_sizes
        identity = self.scheme.identity
        signatures["row_id"] = [identity(item.id) for item in items]
        signatures["source"] = [identity(item.source) if item.source else 0 for item in items]
        signatures["time"] = [item.time for item in items]
        signatures["partition"] = [item.partition for item in items]
        signatures["offset"] = [item.offset for item in items]
        if simhashes is not None:
            signatures["simhash"] = simhashes.out
        elif self.scheme.is_given:
            _take_given(items, signatures)
        else:
            signatures["headline"], signatures["body"] = out.headlines, out.bodies
            signatures["words"], signatures["form"] = out.filters, out.forms
            signatures["figures"] = out.figures
        return signatures

    def features(self, text: str) -> NDArray[np.uint64]:
        """Hashes of the features of a text's SimHash, with repeats; a table of weights counts them."""
        return self._shingles(self.tokens(text), self.scheme.feature_widths, self.scheme.has_letter_features)

    def exact(self, item: Item) -> "ExactViews":
        """The whole sets that the sketches represent, for an exact comparison. O(bytes)."""
        tokens = self.tokens(_headline_of(item))
        count = len(tokens.hashes)
        features = np.empty(count, np.uint64)
        size = headline_features(tokens, count, self._seed, np.empty(slots_for(count), np.uint32), features)
        headline = frozenset(features[:size].tolist())
        tokens = self.tokens(_text_of(item, self.scheme))
        body = self._shingles(tokens, self.scheme.shingle_widths, self.scheme.has_letters)
        return ExactViews(headline, frozenset(body.tolist()), len(tokens.hashes))

    def tokens(self, text: str) -> Tokens:
        """The tokens of a text, without room for more. O(bytes)."""
        tries = [(segment, True)] if self.scheme.has_chinese_words else [(_encoded, False), (fold_with_python, True)]
        for encode, is_folded in tries:
            batch, tables = self._kernel_input([(b"", encode(text))], np.zeros(1, np.int64), is_folded)
            tokens = tokens_for(batch.bounds)
            count = tokenise(batch, batch.bounds[0, 2], batch.bounds[0, 3], tables, tokens)
            if count >= 0:
                break
        return Tokens(tokens.text, tokens.places[: 2 * count], tokens.hashes[:count], tokens.kinds[:count])

    def _shingles(self, tokens: Tokens, widths: ShingleWidths, of_letters: bool) -> NDArray[np.uint64]:
        """Hashes of the shingles of the tokens, in order, with repeats."""
        units: Tokens | Letters = tokens
        count = len(tokens.hashes)
        if of_letters:
            units = letters_for(np.array([[0, tokens.places[-1] if count else 0]]))
            count = spell(tokens, count, self._seed, units)
        out = np.empty(count + 1, np.uint64)
        return out[: every_shingle(units, count, widths, out)]

    def _kernel_input(
        self, views: Sequence[tuple[bytes, ...]], rows: NDArray[np.int64], is_folded: bool = False
    ) -> tuple[TextBatch, TokenTables]:
        """(headline, text) pairs as the kernel takes them; rows: the output row of each pair."""
        parts = [part for pair in views for part in pair]
        ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        bounds = np.stack([ends[:-1], ends[1:]], axis=1).reshape(len(rows), 4)
        data = b"".join([*parts, b" " * SLACK])
        folds = self._folded if is_folded else NO_TABLE if data.isascii() else folding_table()
        batch = TextBatch(np.frombuffer(data, np.uint8), bounds, rows)
        return batch, TokenTables(self._classes, *folds, self._seed)


@dataclass(frozen=True, slots=True)
class ExactViews:
    """Hashes of an item's distinct headline features and body shingles; number of tokens of its text."""

    headline: frozenset[int]
    body: frozenset[int]
    tokens: int


def _take_given(items: Sequence[Item], signatures: NDArray[np.void]) -> None:
    """Write the items' own fingerprints to the signatures; as digests they make equal fingerprints the same text."""
    given = [item.fingerprint is not None for item in items]
    values = np.array([item.fingerprint or 0 for item in items], np.uint64)
    signatures["simhash"][:, 0] = values
    signatures["digest"] = values
    signatures["headline_size"], signatures["body_size"] = 0, given


def _views_of(items: Sequence[Item], scheme: Scheme) -> Iterator[tuple[bytes, bytes]]:
    """Headline and text of each item, UTF-8, folded if segmented; empty if items bring their own fingerprints."""
    encode = segment if scheme.has_chinese_words else _encoded
    for item in items:
        yield (b"", b"") if scheme.is_given else (encode(_headline_of(item)), encode(_text_of(item, scheme)))


def _text_of(item: Item, scheme: Scheme) -> str:
    """The text that shingles are made of."""
    return item.text or (_headline_of(item) if scheme.has_letters else "")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _bytes_of_text(views: tuple[bytes, bytes]) -> int:
    return len(views[1])


def _headline_of(item: Item) -> str:
    """The headline of an item without the site's name at its end, for comparison; one alone also without its label."""
    if item.text:
        return cut_site_suffix(item.title)
    return cut_label(cut_site_suffix(item.title, with_numbers=False))


def cut_label(headline: str) -> str:
    """Cut what stands in front of a headline: the section before a "|", the form of the text before a colon.

    A part before a colon is else news: "Elm: bridge closed" and "Oak: bridge closed" are two headlines.

    >>> cut_label("Opinion | Who owns the new bridge?"), cut_label("Op-Ed Columnist: Who owns the new bridge?")
    ('Who owns the new bridge?', 'Who owns the new bridge?')
    >>> cut_label("Elm: bridge closed for a week")
    'Elm: bridge closed for a week'
    """
    found = _LABEL.match(headline)
    if not found or _DIGIT.search(found[0]):
        return headline
    rest = headline[found.end() :]
    return headline if _is_short(rest, _HEADLINE_WORDS - 1, _HEADLINE_CHARACTERS - 1) else rest


def cut_site_suffix(headline: str, with_numbers: bool = True) -> str:
    """Cut the site's name off the end of a headline, by structure and without a list of sites.

    with_numbers: False keeps a last part with a digit. In an item without text, it may be the news ("London gold fix -
    464.30 dollars") and not a channel's name.

    >>> cut_site_suffix("Mayor opens new bridge over the Elm - The Harbor Post")
    'Mayor opens new bridge over the Elm'
    >>> cut_site_suffix("Bridge open - at last")
    'Bridge open - at last'
    """
    candidate = _ANY_MARK.search(headline)
    mark = candidate and _MARK.search(headline, candidate.start())
    if mark is None:
        return headline
    # The last ones only: a list of all would have 250,000 of a headline of a megabyte.
    separators = deque(_SEPARATOR.finditer(headline, len(headline[: mark.start()].rstrip())), _MAX_SUFFIXES)
    for separator in reversed(separators):
        start, end = separator.span()
        head, tail = headline[:start], headline[end:]
        if not with_numbers and _DIGIT.search(tail):
            break
        if not _is_short(tail, _SUFFIX_WORDS, _SUFFIX_CHARACTERS) or _is_short(
            head, _HEADLINE_WORDS - 1, _HEADLINE_CHARACTERS - 1
        ):
            break
        headline = head
    return headline


def _is_short(text: str, words: int, characters: int) -> bool:
    if text.isascii() or " " in text.strip():
        return len(text.split(None, words)) <= words
    return len(text) <= characters

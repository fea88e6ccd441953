"""What a fingerprint is: text, tokens, features, shingles, sketch, keys, filter, figures, passages.

Every hash is an integer of 64 bits. Nothing here is fast, and nothing is done twice in two ways: what the product
computes with one bit a byte or eight bytes at a time, is one loop here. Of the package it uses the tables of Unicode
(`characters`), the scheme and the rules for headlines.
"""

import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from stream_dedup.fingerprint import characters, kernel
from stream_dedup.fingerprint.characters import CHARACTER, IGNORED, PART, SEPARATOR, WORD
from stream_dedup.fingerprint.headlines import cut_tail, headline_of
from stream_dedup.fingerprint.kernel import HEADLINE_FEATURES
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item

M64 = 2**64 - 1
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53
FILTER_BITS, NO_WORD = 768, 768
NO_TRAIT, NEGATION, NUMBER_WORD, FIGURE = range(4)
FURTHER_GROUP, FIGURES_FROM, NEGATIONS_FROM, CODES = 0, 0xF000, 0xFC00, 0x10000
MOST_SEQUENCE, HEADLINE_CODES = 1 << 14, 64


def mix(h: int) -> int:
    """The finaliser of MurmurHash3."""
    for factor in (FIRST, SECOND):
        h = (h ^ h >> 33) * factor & M64
    return h ^ h >> 33


def rolled(h: int, token: int) -> int:
    """Append a token to a hash: FNV-1a, after a rotation by five bits."""
    return ((h << 5 | h >> 59) & M64 ^ token) * 0x100000001B3 & M64


def narrowed(h: int) -> int:
    """The upper half, never 0."""
    return max(h >> 32, 1)


# -- tokens -----------------------------------------------------------------------------------------------------------


class Token(NamedTuple):
    """A word, or a character of a script without spaces; start, end: its bytes in the folded text.

    A number word has the hash of its digits.
    """

    hash: int
    text: str
    is_character: bool
    start: int
    end: int
    trait: int = NO_TRAIT

    @property
    def is_number(self) -> bool:
        return is_digit(self.text[0])


def is_digit(character: str) -> bool:
    return "0" <= character <= "9"


@cache
def classes_of() -> list[int]:
    return characters.character_classes().tolist()


def class_of(character: str, classes: list[int]) -> int:
    return classes[ord(character)] if ord(character) < len(classes) else SEPARATOR


def folded(text: str) -> str:
    return written(characters.fold(text.encode("utf-8", "replace").decode()))


def written(plain: str) -> str:
    """The text without ignored characters; beyond ASCII a separator is a space, or "!" if it ends a sentence, and a
    letter is set apart from a digit before it.
    """
    out, marks = [" "], {chr(code) for code in characters.sentence_marks().tolist()}
    for character in plain:
        kind = class_of(character, classes_of())
        if kind == SEPARATOR and not character.isascii():
            character = "!" if character in marks else " "
        if kind == WORD and not character.isascii() and is_digit(out[-1]):
            out.append(" ")
        if kind != IGNORED:
            out.append(character)
    return "".join(out[1:])


@cache
def lexicon_of(seed: int) -> dict[int, tuple[int, int]]:
    """The hash and the trait of number words and negations, by their own hash; the first line of a word counts."""
    found = dict[int, tuple[int, int]]()
    for line in kernel.WORDS.read_text("utf-8").splitlines():
        head, _, words = line.partition(" ")
        if head == "#":
            continue
        text = f" {written(words)} "
        value = hash_of_word(head, seed)
        for token in plain_tokens_of(text, seed):
            data = text.encode()
            if data[token.start - 1] == data[token.end] == 0x20:  # it is the whole word
                found.setdefault(token.hash, (token.hash, NEGATION) if head == "-" else (value, NUMBER_WORD))
    return found


def hash_of_word(word: str, seed: int) -> int:
    """Eight bytes at a time, the first the lowest, zeros behind the last."""
    data = word.encode()
    return hash_of_eights([int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)], seed)


def hash_of_eights(eights: list[int], seed: int) -> int:
    first, *others = eights
    h = (first ^ seed) * GOLDEN & M64
    for eight in others:
        if seed >> 32:  # salted
            h = mix(h)
        h = (h ^ h >> 32 ^ eight) * FIRST & M64
    return mix(h)


def tokens_of(text: str, scheme: Scheme) -> list[Token]:
    """The tokens of a folded text, with their traits."""
    known, out = lexicon_of(scheme.token_seed), list[Token]()
    for token in plain_tokens_of(text, scheme.token_seed):
        h, trait = known.get(token.hash, (token.hash, NO_TRAIT))
        if any(is_digit(chr(byte)) for byte in token.text.encode()[:8]):
            h, trait = token.hash, FIGURE
        out.append(token._replace(hash=token.hash if token.is_character else h, trait=trait))
    return out


def plain_tokens_of(text: str, seed: int) -> list[Token]:
    classes = classes_of()
    out, word, start, at = list[Token](), "", 0, 0
    for character in [*text, " "]:
        kind, size = class_of(character, classes), len(character.encode())
        if kind == WORD:
            start = start if word else at
            word += character
        elif word:
            out.append(Token(hash_of_word(word, seed), word, False, start, at))
            word = ""
        if kind == PART and out and out[-1].end == at and out[-1].is_character:
            last, h = out[-1], mix((~ord(character) ^ seed) * GOLDEN & M64)
            out[-1] = last._replace(hash=mix(rolled(last.hash, h)), text=last.text + character, end=at + size)
        elif kind in (CHARACTER, PART):
            out.append(Token(mix((~ord(character) ^ seed) * GOLDEN & M64), character, True, at, at + size))
        at += size
    return out


def digest_of(digest: int, tokens: list[Token]) -> int:
    """Add the tokens of a view; each place has a term of its own, so that their order matters."""
    total = len(tokens)
    for i, token in enumerate(tokens):
        h = token.hash + i * GOLDEN & M64
        total += (h ^ h >> 32) * FIRST
    return mix((digest ^ total) & M64)


# -- words and numbers ------------------------------------------------------------------------------------------------


def feature_of(tokens: list[Token], i: int, seed: int) -> int:
    """A word by its first five letters, a number whole, or a pair of characters; 0 if none begins here."""
    token = tokens[i]
    if not token.is_character:
        is_number = token.is_number or token.trait == NUMBER_WORD
        return (token.hash if is_number else hash_of_word(token.text[:5], seed)) | 1
    if i + 1 < len(tokens) and tokens[i + 1].is_character:
        return mix((token.hash << 5 | token.hash >> 59) & M64 ^ tokens[i + 1].hash) | 1
    return 0 if i and tokens[i - 1].is_character else token.hash | 1


def words_of(tokens: list[Token], seed: int) -> list[int]:
    features = [feature_of(tokens, i, seed) for i in range(len(tokens))]
    return [narrowed(h) if h else 0 for h in features]


def numbers_of(tokens: list[Token], text: bytes, seed: int) -> list[tuple[int, int]]:
    """Value and first token of each figure, word with digits, and number word.

    A figure is its digits, at most 32, in groups joined by one mark of ".,:/-"; letters may end it ("12th"). A word
    with more digits behind letters ("4x4") is a name.
    """
    out, i = list[tuple[int, int]](), 0
    while i < len(tokens):
        token, first = tokens[i], i
        i += 1
        if token.trait < NUMBER_WORD or token.is_character:
            continue
        digits, rest = split_digits(token.text)
        if not digits or any(map(is_digit, rest)):
            out.append((narrowed(token.hash), first))
            continue
        while not rest and i < len(tokens):
            end = tokens[i - 1].end
            more, following = split_digits(tokens[i].text)
            if tokens[i].start - end != 1 or text[end] not in b".,:/-" or not more or any(map(is_digit, following)):
                break
            digits, rest, i = digits + more, following, i + 1
        out.append((narrowed(hash_of_word(digits[:32], seed)), first))
    return out


def split_digits(word: str) -> tuple[str, str]:
    """The digits that a word begins with, and the rest."""
    at = next((k for k, character in enumerate(word) if not is_digit(character)), len(word))
    return word[:at], word[at:]


def bit_of_word(h: int) -> int:
    return h * FILTER_BITS >> 32


def bits_of_number(h: int) -> tuple[int, int]:
    """The two bits of a number in the filter of words."""
    return bit_of_word(h), bit_of_word(h * 0x9E3779B1 & 0xFFFFFFFF)


def figure_of(h: int) -> int:
    """Its bit among the 64 that are for numbers alone."""
    return 1 << ((h * 0xD6E8FEB86659FD93 & M64) >> 58)


# -- sequences --------------------------------------------------------------------------------------------------------


def code_of(token: Token, word: int) -> int:
    """16 bits of a token: of a word, 12 of its first letters and four of the whole. word: its narrowed feature."""
    upper = token.hash >> 32
    if token.trait in (FIGURE, NUMBER_WORD):
        return figure_code(narrowed(token.hash))
    if token.trait == NEGATION:
        return NEGATIONS_FROM + upper % (CODES - NEGATIONS_FROM)
    if token.is_character:
        return upper * FIGURES_FROM >> 32
    return (word * (FIGURES_FROM >> 4) >> 32) << 4 | token.hash >> 60


def figure_code(value: int) -> int:
    return FIGURES_FROM + value % (NEGATIONS_FROM - FIGURES_FROM)


def codes_of(tokens: list[Token], text: str, seed: int) -> list[int]:
    """The codes of a text. A figure in groups has the code of the whole number, then one for each further group."""
    whole = {first: figure_code(value) for value, first in numbers_of(tokens, text.encode(), seed)}
    codes = list[int]()
    for i, (token, word) in enumerate(zip(tokens, words_of(tokens, seed), strict=True)):
        is_figure = token.trait == FIGURE and not token.is_character
        codes.append(whole.get(i, FURTHER_GROUP) if is_figure else code_of(token, word))
    return codes


# -- shingles ---------------------------------------------------------------------------------------------------------

Unit = tuple[int, bool]
"""The hash of a token or a letter, and whether it is a character of a script without spaces."""


def letters_of(tokens: list[Token], seed: int) -> tuple[list[Unit], list[int]]:
    """The letters of a text, with a space before each word but the first, and the first letter of each token."""
    units, starts = list[Unit](), list[int]()
    for i, token in enumerate(tokens):
        if i and not tokens[i - 1].is_character and not token.is_character:
            units.append((mix((0x20 ^ seed) * GOLDEN & M64), False))
        starts.append(len(units))
        if token.is_character:
            units.append((token.hash, True))
        else:
            units += [(mix((ord(letter) ^ seed) * GOLDEN & M64), False) for letter in token.text]
    return units, [*starts, len(units)]


def shingles_of(units: list[Unit], widths: tuple[int, int]) -> list[int]:
    """All of them in order, with repeats. A text that is shorter than its shingle is one shingle."""
    out = []
    for i, (h, is_character) in enumerate(units):
        width = widths[is_character]
        if i + width > len(units) and i:
            continue
        for other, _ in units[i + 1 : i + width]:
            h = rolled(h, other)
        out.append(mix(h) | 1)
    return out


def sketch_of(members: list[int], bins: int) -> bytes:
    """One permutation: for each bin a nibble of its smallest hash, 0 if it is empty."""
    least: dict[int, int] = {}
    for h in members:
        place = h * bins >> 64
        least[place] = min(least.get(place, h), h)
    nibbles = [1 + (least[place] >> 1 & 0xFFFF) % 15 if place in least else 0 for place in range(bins)]
    return bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))


def band_keys(members: list[int], permutations: list[list[int]], rows: int) -> list[int]:
    """A hash of the minima of each band; 0 without a member."""
    keys, narrow = [], [h >> 20 & 0xFFFFFFFF for h in members]
    functions = list(zip(*permutations, strict=True))
    for band in range(len(functions) // rows):
        h = (band + 1) * FIRST & M64
        for a, b in functions[band * rows : (band + 1) * rows]:
            h = mix(h ^ min(((value ^ b) * a & 0xFFFFFFFF for value in narrow), default=0))
        keys.append(narrowed(h) if members else 0)
    return keys


def anchor_keys(shingles: list[int], k: int, step: int, last: int) -> list[int]:
    """The k smallest keys of all runs of eight words, ascending. A text that is shorter than a run is one run."""
    if not shingles:
        return [0] * k
    runs = [(shingles[i], shingles[i + step], shingles[i + last]) for i in range(len(shingles) - last)]
    keys = set()
    for first, *others in runs or [(0, *shingles)]:
        for shingle in others:
            first = rolled(first, shingle)
        keys.add(narrowed(mix(first)))
    return (sorted(keys) + [0] * k)[:k]


def packed(members: list[int]) -> bytes:
    """The set in 24 bits a member, as Golomb-Rice codes of the differences."""
    k = max(((11 << 24) // (16 * max(len(members), 1))).bit_length() - 1, 0)
    bits, before = "", 0
    for member in sorted(h >> 40 for h in members)[: 1 << 16]:
        gap, before = member - before, member
        bits += "0" * (gap >> k) + "1" + f"{gap & (1 << k) - 1:0{k}b}"[::-1][:k]
    return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))


# -- sentences and passages -------------------------------------------------------------------------------------------


def is_wrapped(text: bytes, stop: int) -> bool:
    """Whether the lines are wrapped: three or more, none above 80 bytes, half of them 50 or more.

    Line breaks count up to the end of the block of 64 bytes in which the text stops.
    """
    ends = [at for at in range(min(-(-stop // 64) * 64, len(text))) if text[at] == 0x0A]
    lengths = [end - begin for begin, end in zip([0, *(end + 1 for end in ends)], ends, strict=False)]
    rest = stop - (ends[-1] + 1 if ends else 0)
    if max([*lengths, rest]) > 80:
        return False
    return len(ends) + 1 >= 3 and 2 * sum(length >= 50 for length in lengths) >= len(ends)


def sentences_of(tokens: list[Token], folded_text: bytes) -> list[tuple[int, bool]]:
    """The token behind each line or sentence, and whether it ends in a sentence mark."""
    if not tokens:
        return []
    out, text, stop = list[tuple[int, bool]](), folded_text + b" " * 128, tokens[-1].end + 4
    wrapped = is_wrapped(text, stop)
    ends = [token.end for token in tokens]
    for at in range(stop):
        mark, following = text[at : at + 1], text[at + 1]
        if mark not in (b"\n", b".", b"!", b"?", b"|") or (wrapped and mark == b"\n" and following > 0x20):
            continue
        before = bisect_right(ends, at)
        if before == 0 or (out and out[-1][0] == before):
            continue
        if mark == b".":
            if following >= 0x80 or chr(following).islower() or chr(following).isdigit():
                continue  # inside a number, a name or an address
            last = tokens[before - 1]
            short = last.end == at and last.end - last.start < (3 if last.is_number else 4)
            if short and before < len(tokens) and following != 0x0A:
                continue  # "Mr.", "17."
        if mark == b"|" and not "\u0900" <= tokens[before - 1].text[0] <= "\u0d7f":
            continue  # in Indic scripts it stands for a danda
        out.append((before, mark != b"\n"))
    return out if out and out[-1][0] == len(tokens) else [*out, (len(tokens), False)]


@dataclass
class Passage:
    """At most 23 tokens of a line. end: the token behind it; first, last: the shingles within its sentence."""

    end: int
    hash: int
    is_prose: bool
    is_last: bool
    is_marked: bool
    first: int
    last: int


def passages_of(
    data: bytes,
    tokens: list[Token],
    words: list[int],
    sentences: list[tuple[int, bool]],
    starts: list[int],
    width: int,
) -> list[Passage]:
    """data: the folded text; starts: the first unit of each token, and the number of units; width: of a shingle."""
    out, start = list[Passage](), 0
    begins = [0, *(end for end, _ in sentences)]
    marked = sum(end - begin for begin, (end, is_sentence) in zip(begins, sentences, strict=False) if is_sentence)
    thai = sum("\u0e00" <= token.text[0] <= "\u0eff" for token in tokens)  # or Lao: they have no sentence marks
    is_unmarked = 2 * thai > len(tokens)
    has_marks = 10 * marked > len(tokens) and not is_unmarked
    for end, is_sentence in sentences:
        length = sum((token.end - token.start) // 3 if token.is_character else 2 for token in tokens[start:end])
        is_prose = (is_sentence or not has_marks) and length >= (15 if is_sentence else 80)
        is_marked = is_sentence or (is_unmarked and length >= 30)
        is_marked = is_marked and data[max(tokens[start].start - 1, 0) : tokens[start].start] not in (b"(", b"[")
        while start < end:
            until = end if end - start < 24 else start + 16  # a short rest joins the passage before it
            h = until - start
            for i in range(until - start):
                h += (words[start + i] + i * GOLDEN & M64) * FIRST
            last = max(min(starts[until], starts[end] - width + 1), starts[start])
            out.append(Passage(until, narrowed(mix(h & M64)), is_prose, until == end, is_marked, starts[start], last))
            start = until
    return out


# -- SimHash ----------------------------------------------------------------------------------------------------------


def simhash_of(shingles: list[int]) -> int:
    """Each shingle votes on each bit by its own hash as often as it occurs; the majority decides."""
    votes = [0] * 64
    for h in shingles:
        bits = mix(h)
        for bit in range(64):
            votes[bit] += 1 if bits >> bit & 1 else -1
    return sum(1 << bit for bit, total in enumerate(votes) if total > 0)


def layout_keys(simhash: int, scheme: Scheme) -> list[int]:
    """The keys of each table: the bits that it selects and then others, or a hash of these bits if they are many."""
    assert scheme.layout
    keys = []
    for table, (mask, dont_care) in enumerate(
        zip(scheme.layout.masks.tolist(), scheme.layout.dont_care_bits, strict=True)
    ):
        if not dont_care:
            keys.append(narrowed(mix((table + 1) * GOLDEN & M64 ^ simhash & mask)))
            continue
        chosen = [place for place in range(64) if mask >> place & 1]
        others = [place for place in range(64) if place not in chosen][: 32 - len(chosen)]
        key = 0
        for run in [*runs_of(chosen), *runs_of(others)]:
            key = key << len(run) | simhash >> run[0] & (1 << len(run)) - 1
        keys.append(max(key, 1))
    return keys


def runs_of(places: list[int]) -> list[list[int]]:
    """Adjacent places of one word of 64 bits."""
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] + 1 == place and place % 64:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


# -- the whole --------------------------------------------------------------------------------------------------------


@dataclass
class Print:
    """The fingerprint of an item. Its fields are those of a signature, and behind `keys` what is not stored."""

    row_id: int
    source: int
    time: int
    partition: int
    offset: int
    digest: int = 0
    body_size: int = 0
    headline_size: int = 0
    form: int = 0
    headline: list[int] = field(default_factory=list)
    filter: set[int] = field(default_factory=set)
    figures: int = 0
    body: bytes = b""
    simhash: int = 0
    keys: list[int] = field(default_factory=list)
    stored_body: bytes = b""
    members: list[int] = field(default_factory=list)
    word_set: set[int] = field(default_factory=set)
    headline_words: list[int] = field(default_factory=list)
    headline_numbers: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    numbers: list[tuple[int, int]] = field(default_factory=list)
    shingles: list[int] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    headline_codes: int = 0

    @property
    def is_empty(self) -> bool:
        return self.headline_size == self.body_size == 0


def fingerprint(item: Item, scheme: Scheme) -> Print:
    seed, identity = scheme.token_seed, scheme.identity
    out = Print(identity(item.id), identity(item.source) if item.source else 0, item.time, item.partition, item.offset)
    id_key = narrowed(out.row_id)
    if scheme.is_given:
        out.digest = out.simhash = item.fingerprint or 0
        out.body_size = item.fingerprint is not None
        keys = layout_keys(out.simhash, scheme)
        out.keys = [*(keys if out.body_size else [0] * len(keys)), id_key]
        return out
    title = folded(headline_of(item))
    text = folded(cut_tail(item.text, item.source) or (headline_of(item) if scheme.has_letters else ""))
    headline, tokens = tokens_of(title, scheme), tokens_of(text, scheme)
    out.digest = digest_of(digest_of(seed, headline), tokens)
    features = [feature_of(headline, i, seed) for i in range(len(headline))]
    features = sorted(list(dict.fromkeys(h for h in features if h))[:64])
    out.headline_size = len(features)
    units, starts = [(token.hash, token.is_character) for token in tokens], list(range(len(tokens) + 1))
    if scheme.has_letters:
        units, starts = letters_of(tokens, seed)
    out.shingles = shingles_of(units, scheme.shingle_widths)
    out.members = list(dict.fromkeys(out.shingles))
    if scheme.layout:
        out.simhash, out.body_size = simhash_of(out.shingles), len(out.shingles)
        keys = layout_keys(out.simhash, scheme)
        out.keys = [*(keys if out.shingles else [0] * len(keys)), narrowed(out.digest), id_key]
        return out

    out.body_size, out.body = len(out.members), sketch_of(out.members, 0 if scheme.is_exact else 128)
    words = words_of(tokens, seed)
    if len(tokens) <= MOST_SEQUENCE:
        out.headline_codes = min(len(headline), HEADLINE_CODES)
        out.codes = [*codes_of(headline, title, seed)[:HEADLINE_CODES], *codes_of(tokens, text, seed)]
    out.stored_body = struct.pack(f"<II{len(out.codes)}H", len(out.codes), out.headline_codes, *out.codes)
    out.stored_body += packed(out.members) if scheme.is_exact else b""
    out.headline_words = [narrowed(h) for h in features[:HEADLINE_FEATURES]]
    out.headline_numbers = [value for value, _ in numbers_of(headline, title.encode(), seed)][:8]
    out.numbers = numbers_of(tokens, text.encode(), seed)
    out.places = [bit_of_word(h) if h else NO_WORD for h in words]
    out.filter = {bit_of_word(h) for h in [*words, *out.headline_words] if h}
    for h in [*out.headline_numbers, *(value for value, _ in out.numbers)]:
        out.filter |= {*bits_of_number(h)}
        out.figures |= figure_of(h)
    out.word_set = {h >> 17 for h in words if h}
    out.headline = [2 * (h >> 49) + (h >> 49 in out.word_set) for h in features[:HEADLINE_FEATURES]]
    h = 0
    for token in headline:  # the headline with all numbers masked
        h = mix((h ^ (1 if token.trait >= NUMBER_WORD else token.hash)) * GOLDEN & M64)
    out.form = max(h >> 56, 1) if len(features) > 1 else 0

    has_characters = any(token.is_character for token in tokens)
    run = scheme.anchor_runs[2:] if has_characters else scheme.anchor_runs[:2]
    bands = band_keys(features, scheme.permutations().tolist(), 3)
    out.keys = [*anchor_keys(out.shingles, 16, *run), *bands, narrowed(out.digest), id_key]
    width = max(scheme.shingle_widths) if has_characters else scheme.shingle_widths.words
    out.passages = passages_of(text.encode(), tokens, words, sentences_of(tokens, text.encode()), starts, width)
    return out

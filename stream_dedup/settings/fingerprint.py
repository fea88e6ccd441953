"""[fingerprint]: how an item's text becomes a fingerprint."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from stream_dedup.settings.secrets import SecretTable

_SHORTEST_SALT = 16
MOST_BANDS = 1024
"""Of a view. Counters and formats hold more; but a band costs each original some nine bytes and each lookup a cache
miss, and layouts in use have at most 450 bands (of 20 rows, Lee et al. 2022)."""
# Bands times rows of a view. More only cost time: a body of 400 words takes .3 ms with 16,384 functions and .2 with
# 9,000, the most in use.
_MOST_FUNCTIONS = 16_384
# One band of all functions of a sketch, as others use for a threshold near 1.
_MOST_ROWS = 512


class FingerprintSettings(SecretTable):
    """How an item becomes a fingerprint. Any change makes a new scheme, which cannot use the old changelog."""

    # Others use up to 13 words and 24 characters. Any number works; far longer ones find only whole texts.
    shingle_words: int = Field(3, ge=1, le=32, description="Words in a shingle, in scripts with spaces.")
    shingle_letters: int = Field(
        0,
        ge=0,
        le=64,
        description="Letters in a shingle, in scripts with spaces, in place of words, from 2; 0: words. For feeds of "
        "short posts with typing errors: 4 or 5, with decision.novelty = 0.1. An item without text is then compared by "
        "the letters of its headline.",
    )
    shingle_characters: int = Field(
        5, ge=1, le=64, description="Characters in a shingle, in scripts without spaces (Chinese, Japanese, Thai)."
    )
    chinese: Literal["characters", "words"] = Field(
        "characters",
        description="Tokens of Chinese. characters: no segmenter is needed, and verdicts agree with readers as well; "
        "words: those of jieba (extra `chinese`), in shingles of shingle_words, to match a system that has them.",
    )
    family: Literal["minhash", "simhash", "given"] = Field(
        "minhash",
        description="How bodies are found and compared. minhash: by the Jaccard similarity of their shingles; simhash: "
        "by the Hamming distance of 64 or 128 bits, which takes less memory and finds near-identical bodies only; "
        "given: by the distance of the record's own fingerprint ([item] fingerprint).",
    )
    # No layout that is allowed guarantees more than 16 bits.
    hamming: int = Field(
        3, ge=0, le=32, description="simhash, given: most bits in which the fingerprints of two bodies may differ."
    )
    layout: str = Field(
        "5 choose 2",
        description="simhash, given: tables of the index. 'm choose r': a table for each choice of r of m blocks of "
        "bits; finds every pair within m - r bits. 'm x n': a table for each of m blocks with each of n parts of the "
        "remaining bits; finds every pair within min(m, n) - 1 bits. For example 4 choose 1 (4 tables, 3 bits), 4 x 4 "
        "(16, 3), 5 choose 2 (10, 3), 6 choose 3 (20, 3), 8 choose 2 (28, 6).",
    )
    bits: Literal[64, 128] = Field(64, description="simhash: bits of a fingerprint.")
    features: Literal["shingles", "tokens"] = Field(
        "shingles",
        description="simhash: the features that vote: shingles, or single words (in scripts without spaces, "
        "characters).",
    )
    weights: Literal["uniform", "tf", "idf"] = Field(
        "tf",
        description="simhash: weight of a feature's vote. uniform: 1; tf: how often it occurs; idf: how often it "
        "occurs, times its rarity in the table `idf`.",
    )
    idf: Path | None = Field(
        None,
        description="simhash: file of feature rarities, written by `stream-dedup weights build`.",
    )
    verify: Literal["sketch", "exact"] = Field(
        "sketch",
        description="minhash: how a candidate's body is compared. sketch: by body_bins bins, which estimate the "
        "Jaccard similarity; exact: by all its distinct shingles, about two bytes each.",
    )
    # 4,096 bins err by .008 at most; verify = "exact" does not err, and takes less memory from 1,000 shingles down.
    body_bins: int = Field(
        128,
        ge=64,
        le=4096,
        description="Bins of the body's sketch: a power of two, half a byte each. Unused with verify = 'exact'.",
    )
    # Each takes nine bytes an original. 10 find .85 to .98 of the contained pairs, 16 .90 to .99, 24 .95 to 1.
    anchors: int = Field(
        16,
        ge=0,
        le=64,
        description="minhash: keys of a body, the smallest hashes of its shingles of eight words. They find what holds "
        "part of another text, and every pair with a Jaccard similarity of .5 or more. 0: body_bands alone.",
    )
    body_bands: int = Field(
        0,
        ge=0,
        le=MOST_BANDS,
        description="minhash: bands of the body, beside or in place of anchors, for a chosen S-curve: 16 bands of 4 "
        "rows find half of the pairs at a Jaccard similarity of .5. Each takes nine bytes an original and a cache miss "
        "a lookup; bands times rows may be up to 16,384, which take .3 ms an article.",
    )
    body_rows: int = Field(4, ge=1, le=_MOST_ROWS, description="Rows per band. More rows give fewer false candidates.")
    headline_bands: int = Field(2, ge=1, le=MOST_BANDS, description="minhash: bands of the headline.")
    headline_rows: int = Field(3, ge=1, le=_MOST_ROWS, description="minhash: rows per band of the headline.")
    seed: int = Field(1, ge=0, lt=2**32, description="Seed of every hash function.")
    salt: SecretStr | None = Field(
        None,
        description="Secret that every hash function depends on, at least 16 characters, such as the output of "
        "`openssl rand -hex 32`. Without it, whoever knows the program can write items that collide. Set it in the "
        "environment rather than in the file; all members need the same. Unset: the hash functions that are public. "
        "With family = 'given' it protects ids only: whoever supplies fingerprints chooses which of them are near, and "
        "[index] bucket_limit bounds what that costs.",
    )
    salt_file: Path | None = Field(None, description="File with the salt, in its place.")

    @model_validator(mode="after")
    def _salt_is_long(self) -> "FingerprintSettings":
        if self.has_secret("salt") and len(self.secret("salt") or "") < _SHORTEST_SALT:
            raise ValueError(
                f"salt has fewer than {_SHORTEST_SALT} characters, which can be guessed from the scheme id; take the "
                "output of: openssl rand -hex 32"
            )
        return self

    @model_validator(mode="after")
    def _shingles_are_of_one_kind(self) -> "FingerprintSettings":
        if self.shingle_letters == 1:
            raise ValueError("shingle_letters = 1 is the alphabet, which all texts share; set 3 to 8, or 0 for words")
        if self.shingle_letters and self.shingle_words != FingerprintSettings.model_fields["shingle_words"].default:
            raise ValueError(
                f"shingle_words = {self.shingle_words} has no effect with shingle_letters = {self.shingle_letters}; "
                "leave one of them out"
            )
        return self

    @model_validator(mode="after")
    def _bins_are_a_power_of_two(self) -> "FingerprintSettings":
        if self.body_bins & (self.body_bins - 1):
            raise ValueError(f"body_bins must be a power of two (64, 128, 256, ...), not {self.body_bins}")
        return self

    @model_validator(mode="after")
    def _functions_are_affordable(self) -> "FingerprintSettings":
        for view in ("body", "headline"):
            bands, rows = getattr(self, f"{view}_bands"), getattr(self, f"{view}_rows")
            if bands * rows > _MOST_FUNCTIONS:
                raise ValueError(
                    f"{view}_bands = {bands} times {view}_rows = {rows} is {bands * rows:,} hash functions for each "
                    f"shingle; at most {_MOST_FUNCTIONS:,} are allowed"
                )
        return self

    @model_validator(mode="after")
    def _exact_needs_minhash(self) -> "FingerprintSettings":
        if self.verify == "exact" and self.family != "minhash":
            raise ValueError(f"verify = 'exact' needs family = 'minhash'; {self.family!r} is compared by its bits")
        return self

    @model_validator(mode="after")
    def _bodies_have_keys(self) -> "FingerprintSettings":
        if self.family == "minhash" and not self.anchors and not self.body_bands:
            raise ValueError("anchors = 0 and body_bands = 0 leave no key for the body; set one of them")
        return self

    @model_validator(mode="after")
    def _family_has_what_it_needs(self) -> "FingerprintSettings":
        if self.family == "simhash" and self.weights == "idf" and self.idf is None:
            raise ValueError("weights = 'idf' needs idf = 'FILE', a table made by `stream-dedup weights build`")
        if self.family == "given" and self.bits != 64:
            raise ValueError("family = 'given' has fingerprints of 64 bits; leave bits at 64")
        return self

"""[fingerprint]: how an item's text becomes a fingerprint."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from stream_dedup.settings.values import Table


class FingerprintSettings(Table):
    """How an item becomes a fingerprint. A change makes another scheme: the old changelog no longer fits."""

    shingle_words: int = Field(3, ge=1, le=8, description="Words in a shingle of a script with spaces.")
    shingle_characters: int = Field(
        5, ge=1, le=12, description="Characters in a shingle of a script without spaces (Chinese, Japanese, Thai)."
    )
    family: Literal["minhash", "simhash", "given"] = Field(
        "minhash",
        description="How bodies are found and compared. minhash: by the Jaccard of their shingles; simhash: by the "
        "Hamming distance of 64 or 128 bits, smaller and only for near-identical bodies; headline and lead are judged "
        "alike in both. given: by the fingerprint that an item brings along ([item] fingerprint), and by nothing else.",
    )
    hamming: int = Field(
        3, ge=0, le=32, description="simhash, given: bits in which two bodies' fingerprints may differ."
    )
    layout: str = Field(
        "5 choose 2",
        description="simhash, given: tables of the index. 'm choose r': one for each choice of r out of m blocks of "
        "bits, finds everything within m - r bits; 'm x n': one for each of m blocks with each of n parts of the rest, "
        "finds everything within the smaller less 1. E.g. 4 choose 1 (4 tables, 3 bits), 4 x 4 (16, 3), "
        "5 choose 2 (10, 3), 6 choose 3 (20, 3), 8 choose 2 (28, 6).",
    )
    bits: Literal[64, 128] = Field(64, description="simhash: bits of a fingerprint.")
    features: Literal["shingles", "tokens"] = Field(
        "shingles", description="simhash: what votes: shingles, or single words (characters in scripts without spaces)."
    )
    weights: Literal["uniform", "tf", "idf"] = Field(
        "tf",
        description="simhash: how much a feature's vote counts. uniform: 1; tf: how often it occurs; idf: that times "
        "its rarity by the table in `idf`.",
    )
    idf: Path | None = Field(None, description="simhash: table of rarities, written by `stream-dedup weights build`.")
    verify: Literal["sketch", "exact"] = Field(
        "sketch",
        description="minhash: what a candidate's body is compared by. sketch: body_bins, which estimate the Jaccard; "
        "exact: all its distinct shingles, in about two bytes each, which tell it.",
    )
    views: Literal["all", "body"] = Field(
        "all",
        description="What is kept of an item's text. all: headline, lead and body; body: the body alone, for a "
        "fraction of the memory: with simhash and '4 choose 1' 160 bytes an original. Then nothing but the body "
        "decides, without guards, an item without text is bad, and cuts and copies in page boilerplate are missed.",
    )
    lead_words: int = Field(80, ge=10, le=400, description="Length of the lead in words (or two characters each).")
    body_bins: int = Field(
        256,
        ge=64,
        le=4096,
        description="Bins of the body's sketch, a power of two; half as many bytes an original. Unused where "
        "verify = 'exact'.",
    )
    body_bands: int = Field(16, ge=1, le=64, description="Bands of the body's MinHash; more finds less alike items.")
    body_rows: int = Field(4, ge=1, le=16, description="Rows a band; more means fewer false candidates.")
    lead_bands: int = Field(8, ge=1, le=64, description="Bands of the lead's MinHash.")
    lead_rows: int = Field(2, ge=1, le=16, description="Rows a lead band.")
    headline_bands: int = Field(4, ge=1, le=64, description="Bands of the headline's MinHash.")
    headline_rows: int = Field(3, ge=1, le=16, description="Rows a headline band.")
    seed: int = Field(1, ge=0, lt=2**32, description="Seed of every hash function.")

    @model_validator(mode="after")
    def _bins_are_a_power_of_two(self) -> "FingerprintSettings":
        if self.body_bins & (self.body_bins - 1):
            raise ValueError(f"body_bins must be a power of two (64, 128, 256, ...), not {self.body_bins}")
        return self

    @model_validator(mode="after")
    def _only_minhash_is_verified(self) -> "FingerprintSettings":
        if self.verify == "exact" and self.family != "minhash":
            raise ValueError(f"verify = 'exact' goes with family = 'minhash'; {self.family!r} is compared by its bits")
        return self

    @model_validator(mode="after")
    def _idf_has_its_table(self) -> "FingerprintSettings":
        if self.family == "simhash" and self.weights == "idf" and self.idf is None:
            raise ValueError("weights = 'idf' needs idf = 'FILE', a table made by `stream-dedup weights build`")
        if self.family == "given" and self.bits != 64:
            raise ValueError("family = 'given' takes fingerprints of 64 bits; leave bits at 64")
        return self

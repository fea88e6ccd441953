"""The tasks that find candidate pairs, called without Spark."""

import numpy as np
import pyarrow as pa
import pytest

from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import load_settings
from stream_dedup.spark import candidates
from stream_dedup.spark.blocks import block_rows, unpacked_codes
from stream_dedup.spark.candidates import EmitEntries, PairBuckets
from stream_dedup.spark.parts import HEAD_TYPES, Head, Layout, MakeParts, keys_of
from tests.batch.feed import feed


@pytest.mark.parametrize("entries_of_a_range", [2**22, 100])
def test_columns_of_one_table_meet(entries_of_a_range: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_RANGE_ENTRIES", entries_of_a_range)
    settings = load_settings()
    scheme = Scheme(settings.fingerprint)
    parts = list(MakeParts(settings)([pa.record_batch({"value": feed(200)})]))
    heads = [Head(*(row.value(name) for name in HEAD_TYPES)) for row in block_rows(parts)]
    entries = pa.Table.from_batches(EmitEntries(Layout.of(heads), settings.fingerprint)(parts)).sort_by("range")
    found: set[int] = set()
    for row in block_rows(PairBuckets(1024, 4096)(entries.to_batches())):
        found |= set(unpacked_codes(row, "codes").tolist())
    keys = np.concatenate([keys_of(row, scheme) for row in block_rows(parts)], axis=1).T.tolist()
    buckets = [{(t, key) for t, key in zip(scheme.table_of, line, strict=False) if key} for line in keys]
    assert found == {b << 32 | a for b in range(len(buckets)) for a in range(b) if buckets[a] & buckets[b]}

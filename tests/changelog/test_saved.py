"""A saved file: its settings, and that a damaged or foreign one is refused.

That every later verdict is the same is tested in tests/dedup/test_histories.py.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from stream_dedup import Deduplicator, Item, Settings, load_settings
from stream_dedup.changelog.journal import read_entries, write_entries
from stream_dedup.errors import ConfigError, CorruptBlock, InputError, SchemeMismatch
from tests.dedup.world import START, some_items


def small() -> Settings:
    fields = {"fields": {"text": "body.plain"}}
    return load_settings(item=fields, index={"texts": "3h"}, window={"length": "3d"})


def test_an_empty_deduplicator_and_an_id_with_a_lone_surrogate_are_restored(tmp_path: Path) -> None:
    with Deduplicator() as dedup:
        dedup.save(tmp_path / "memory")
    with Deduplicator.load(tmp_path / "memory") as dedup:
        assert len(dedup) == 0
        assert len(list(dedup.filter([an_item("\ud800")]))) == 1
        dedup.save(tmp_path / "memory")
    with Deduplicator.load(tmp_path / "memory") as dedup:
        (verdict,) = dedup.judge([an_item("2")]).verdicts
        assert verdict.original is not None
        assert verdict.original.id == "\ud800"


def an_item(name: str) -> Item:
    return Item(
        name, "Elm bridge opens after two years", "The bridge over the Elm opened on Monday.", "a.example", START
    )


@pytest.fixture
def saved_file(tmp_path: Path) -> Path:
    with Deduplicator(small()) as dedup:
        list(dedup.filter(some_items(np.random.default_rng(1), 40, START)))
        dedup.save(tmp_path / "memory")
    return tmp_path / "memory"


def test_the_saved_settings_apply_unless_others_are_given(saved_file: Path) -> None:
    with Deduplicator.load(str(saved_file)) as dedup:
        assert dedup.settings.window.length.days == 3
        assert dedup.settings.index.texts_ms == 3 * 3_600_000
        row = {"id": "7", "body": {"plain": "The harbour froze over in the night."}}
        assert list(dedup.filter([row])) == [row]
    with Deduplicator.load(saved_file, load_settings(decision={"novelty": 0.6})) as dedup:
        assert dedup.settings.window.length.days == 7


def test_other_fingerprints_are_refused_with_the_difference(saved_file: Path) -> None:
    with pytest.raises(
        SchemeMismatch, match=r"verify = 'sketch' then, 'exact' now.*load\(path\) alone takes all but the salt"
    ) as caught:
        Deduplicator.load(saved_file, load_settings(fingerprint={"verify": "exact"}))
    assert "\n" not in str(caught.value)


def test_every_cut_is_found(saved_file: Path) -> None:
    whole = saved_file.read_bytes()
    ends = [entry.end for entry in read_entries(saved_file)]
    for at in [0, 5, 8, 47, 48, len(whole) // 2, len(whole) - 1, *ends[:-1]]:
        saved_file.write_bytes(whole[:at])
        with pytest.raises(CorruptBlock, match="memory"):
            Deduplicator.load(saved_file)
    saved_file.write_bytes(whole + whole[8 : ends[0]])
    with pytest.raises(CorruptBlock, match="goes on after its end"):
        Deduplicator.load(saved_file)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot load .*missing: No such file"):
        Deduplicator.load(tmp_path / "missing")
    (tmp_path / "text").write_text("{}")
    with pytest.raises(CorruptBlock, match="was not written by"):
        Deduplicator.load(tmp_path / "text")


def test_a_save_that_fails_leaves_the_former_file(saved_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved_file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with Deduplicator.load(saved_file) as dedup:
        list(dedup.filter([an_item("new")]))
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"cannot save to .*memory: No space left"):
            dedup.save(saved_file)
    assert saved_file.read_bytes() == before
    assert list(saved_file.parent.iterdir()) == [saved_file]


def edited(path: Path, **fingerprint: object) -> None:
    """Save an empty Deduplicator, and put these settings of [fingerprint] into the file."""
    with Deduplicator() as dedup:
        dedup.save(path)
    opening, *rest = [(entry.record, entry.block) for entry in read_entries(path)]
    changed = json.loads(opening[0])
    changed["settings"]["fingerprint"] |= fingerprint
    write_entries(path, [(json.dumps(changed).encode(), b""), *rest])


def test_a_saved_state_opens_no_other_file(tmp_path: Path) -> None:
    path, other = tmp_path / "saved", tmp_path / "other"
    edited(path, salt_file=str(other))
    message = r"was saved with \[fingerprint\] salt_file, and .*Deduplicator\.load\(PATH, load_settings"
    with pytest.raises(ConfigError, match=message) as caught:
        Deduplicator.load(path)
    assert str(other) not in str(caught.value)
    with Deduplicator.load(path, load_settings()) as loaded:
        assert len(loaded) == 0


def test_a_state_of_an_earlier_version_is_loaded_if_its_settings_are_those_of_all_now(tmp_path: Path) -> None:
    edited(tmp_path / "saved", shingle_words=3, anchors=16, idf=None)
    with Deduplicator.load(tmp_path / "saved") as loaded:
        assert len(loaded) == 0
    edited(tmp_path / "saved", anchors=7)
    with pytest.raises(ConfigError, match=r"\[fingerprint\] anchors: this setting is gone: 16 find"):
        Deduplicator.load(tmp_path / "saved")
    edited(tmp_path / "saved", layout="4 choose 1")
    with pytest.raises(SchemeMismatch, match=r"layout = '4 choose 1' then, a setting that is gone"):
        Deduplicator.load(tmp_path / "saved", load_settings(fingerprint={"family": "simhash"}))

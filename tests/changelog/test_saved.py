"""A restored Deduplicator decides like the saved one, and a damaged file is refused."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from stream_dedup import Deduplicator, Item, Settings, load_settings
from stream_dedup.changelog import saved
from stream_dedup.changelog.files import read_entries, write_entries
from stream_dedup.dedup import deduplicator
from stream_dedup.dedup.batch import Batch
from stream_dedup.errors import ConfigError, CorruptBlock, InputError, SchemeMismatch, UsageError
from stream_dedup.index import runs
from tests.dedup.test_rollback import some_items
from tests.dedup.world import HOUR
from tests.index.check import check

pytestmark = pytest.mark.usefixtures("small_tree")

START = 1_700_000_000_000
KINDS = [("sketch", 10**6), ("exact", 10**6), ("sketch", 120)]


def verdicts(batch: Batch) -> list[object]:
    return [(one.id, one.kind, one.stage, one.original, one.evidence, one.reason, one.story) for one in batch.verdicts]


def small(verify: str = "sketch") -> Settings:
    return load_settings(
        item={"fields": {"text": "body.plain"}},
        index={"bucket_limit": 3},
        window={"length": "3d"},
        fingerprint={"verify": verify},
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("verify", "most"), KINDS)
@pytest.mark.slow
def test_every_later_verdict_is_the_same(
    seed: int, verify: str, most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One Deduplicator is saved and loaded again and again, the other never: with updates, tombstones, wrong
    dates, several partitions, rolled back batches, recurring prose, a full index, and times that leap to another year.
    """
    monkeypatch.setattr(runs, "_AT_ONCE", 20)  # so that this little data is merged in the background too
    monkeypatch.setattr(deduplicator, "most_originals", lambda *_: most)  # fewer than the settings allow
    monkeypatch.setattr(saved, "_ROWS", 50)
    random = np.random.default_rng(seed)
    steady, moving = Deduplicator(small(verify)), Deduplicator(small(verify))
    now, kinds = START, set()
    for turn in range(60):
        now += int(random.integers(0, 6)) * HOUR
        if random.random() < 0.05:
            now += int(random.choice([-2000, 9000])) * HOUR
        items = some_items(random, int(random.integers(1, 12)), now)
        places = random.integers(0, 3, len(items)).tolist()
        items = [type(one)(**{**fields(one), "partition": p}) for one, p in zip(items, places, strict=True)]
        if random.random() < 0.1:  # a rolled back batch takes no rows
            for one in (steady, moving):
                one.apply(one.judge(items[:5]), pending=True)
                one.rollback()
        expected, actual = steady.judge(items), moving.judge(items)
        assert verdicts(actual) == verdicts(expected), f"turn {turn}"
        assert (moving.watermark, moving.elapsed) == (steady.watermark, steady.elapsed)
        kinds |= {one.kind for one in expected.verdicts}
        steady.apply(expected)
        moving.apply(actual)
        if random.random() < 0.3:
            moving.save(tmp_path / "memory")
            moving.close()
            moving = Deduplicator.load(tmp_path / "memory")
            check(moving.index)
    assert len(kinds) == 4  # all but bad ones
    steady.close()
    moving.close()


def fields(item: object) -> dict[str, object]:
    return {name: getattr(item, name) for name in item.__struct_fields__}  # type: ignore[attr-defined]


def test_learned_boilerplate_is_restored(tmp_path: Path) -> None:
    notice = (
        "Subscribe to our newsletter to have the best of this site in your mailbox every single morning of the week."
    )
    texts = [" ".join(f"w{n}x{k}" for k in range(60)) + f". {notice}" for n in range(4)]
    items = [Item(str(n), f"Title {n} of {n * n}", text, "s.example", START) for n, text in enumerate(texts)]
    with Deduplicator() as dedup:
        list(dedup.filter(items))
        dedup.save(tmp_path / "memory")
        with Deduplicator.load(tmp_path / "memory") as other:
            assert (dedup.boilerplate.entries["seen"][:, 2] > 0).any()
            assert (other.boilerplate.entries == dedup.boilerplate.entries).all()


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
        assert dedup.settings.index.bucket_limit == 3
        row = {"id": "7", "body": {"plain": "The harbour froze over in the night."}}
        assert list(dedup.filter([row])) == [row]
    with Deduplicator.load(saved_file, load_settings(decision={"novelty": 0.6})) as dedup:
        assert dedup.settings.window.length.days == 7


def test_other_fingerprints_are_refused_with_the_difference(saved_file: Path) -> None:
    with pytest.raises(
        SchemeMismatch, match=r"body_bands = 0 then, 20 now.*load\(path\) alone takes all but the salt"
    ) as caught:
        Deduplicator.load(saved_file, load_settings(fingerprint={"body_bands": 20}))
    assert "\n" not in str(caught.value)


def test_every_changed_byte_is_found(saved_file: Path) -> None:
    whole = saved_file.read_bytes()
    random = np.random.default_rng(5)
    for at in [*range(0, 60), *random.integers(60, len(whole), 60).tolist()]:
        saved_file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(CorruptBlock, match="memory"):
            Deduplicator.load(saved_file)


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


def test_a_pending_batch_is_not_saved(tmp_path: Path) -> None:
    with Deduplicator() as dedup:
        dedup.apply(dedup.judge([an_item("1")]), pending=True)
        with pytest.raises(UsageError, match="confirm"):
            dedup.save(tmp_path / "memory")
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["idf", "salt_file"])
def test_a_saved_state_opens_no_other_file(tmp_path: Path, name: str) -> None:
    path, other = tmp_path / "saved", tmp_path / "other"
    with Deduplicator() as dedup:
        dedup.save(path)
    opening, *rest = [(entry.record, entry.block) for entry in read_entries(path)]
    changed = json.loads(opening[0])
    changed["settings"]["fingerprint"][name] = str(other)
    write_entries(path, [(json.dumps(changed).encode(), b""), *rest])
    message = rf"was saved with \[fingerprint\] {name}, and .*Deduplicator\.load\(PATH, load_settings"
    with pytest.raises(ConfigError, match=message) as caught:
        Deduplicator.load(path)
    assert str(other) not in str(caught.value)
    with Deduplicator.load(path, load_settings()) as loaded:
        assert len(loaded) == 0

"""One number bounds the memory of a process; what follows from it, and what set by hand does not fit into it."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import (
    MEMORY_SLACK,
    expected_body_bytes,
    footprint,
    most_originals,
    peak_bytes,
)
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.settings import Settings, load_settings
from stream_dedup.settings.judging import FEWEST_ORIGINALS
from stream_dedup.settings.memory import available, sized, work_bytes
from stream_dedup.tools.evaluate.planner import needed

GIB = 2**30


def bound_of(memory: str, tasks: int = 1, **tables: dict[str, object]) -> tuple[int, Settings]:
    settings = load_settings(worker={"memory": memory, **tables.pop("worker", {})}, **tables)
    return most_originals(settings, Scheme(settings.fingerprint), tasks), settings


@pytest.mark.parametrize(
    ("memory", "batch", "record", "originals"),
    [
        ("512M", "4,194,304 bytes", "2,097,152 bytes", 22_000),
        ("768M", "6,291,456 bytes", "3,145,728 bytes", 180_000),
        ("1G", "8,388,608 bytes", "4,194,304 bytes", 350_000),
        ("1536M", "12 MiB", "6,291,456 bytes", 680_000),
        ("4G", "32 MiB", "16 MiB", 2_200_000),
        ("64G", "32 MiB", "32 MiB", 55_000_000),
    ],
)
def test_batches_records_and_originals_follow_from_memory(memory: str, batch: str, record: str, originals: int) -> None:
    most, settings = bound_of(memory)
    assert (sized(settings.worker.batch_bytes), sized(settings.worker.max_record_bytes), most) == (
        batch,
        record,
        originals,
    )
    with Decider(settings) as dedup:
        assert dedup.max_originals == most


@pytest.mark.parametrize(
    "fingerprint", [{}, {"verify": "exact"}, {"family": "simhash"}, {"family": "simhash", "hamming": 6}]
)
def test_together_they_fit_into_memory_and_use_most_of_it(fingerprint: dict[str, object]) -> None:
    for memory, tasks in itertools.product(("768M", "3G", "64G"), (1, 3)):
        most, settings = bound_of(memory, tasks, fingerprint=fingerprint)
        scheme, worker = Scheme(settings.fingerprint), settings.worker
        body_bytes = expected_body_bytes(scheme, settings)
        takes = MEMORY_SLACK * peak_bytes(most, footprint(scheme, most, body_bytes=body_bytes))
        whole = work_bytes(worker.batch_bytes, worker.max_record_bytes) + tasks * takes
        assert 0.85 < whole / worker.memory < 1.05
        if tasks == 1 and not scheme.is_exact:
            assert needed(takes) <= worker.memory < 1.2 * needed(takes), "what `plan` says for these originals"


def test_originals_by_hand_that_do_not_fit_are_refused_with_the_numbers() -> None:
    """Twenty million were the default: 16 GiB, in a container of one."""
    with pytest.raises(ConfigError) as caught, Decider(bound_settings("1G", 20_000_000)):
        pass
    assert str(caught.value).startswith(
        "[window] max_originals = 20,000,000 take up to 22,792 MiB, and the process with its batches 622 MiB: more "
        "than [worker] memory = 1,024 MiB. Raise memory"
    )


def test_keys_that_share_a_table_take_no_less_and_bound_the_originals() -> None:
    """What a run of an index takes for them, and that it numbers the keys of a table with 32 bits."""
    settings = load_settings()
    scheme = Scheme(settings.fingerprint)
    n = 20_000
    takes, index = footprint(scheme, n), HybridIndex(scheme.table_of, background=False)
    index.add(np.random.default_rng(1).integers(1, 2**32, (n, scheme.key_columns), np.uint32), np.zeros(n, np.int64))
    (run,) = index._tiers.runs
    assert takes.keys * takes.key_bytes == pytest.approx(run.nbytes / n, rel=0.01)
    with pytest.raises(ConfigError, match=r"max_originals = 200,000,000, but one index holds at most 134,217,728"):
        most_originals(load_settings(worker={"memory": "900G"}, window={"max_originals": 200_000_000}), scheme)
    assert most_originals(load_settings(worker={"memory": "900G"}), scheme) == 134_217_728


def bound_settings(memory: str, originals: int) -> Settings:
    return load_settings(worker={"memory": memory}, window={"max_originals": originals})


def test_a_worker_without_room_for_the_fewest_originals_is_refused() -> None:
    settings = load_settings(worker={"memory": "512M"})
    scheme = Scheme(settings.fingerprint)
    with pytest.raises(ConfigError, match=r"max_originals = 20,000 for each of 40 partitions take up to 911 MiB"):
        most_originals(settings, scheme, 40, fewest=FEWEST_ORIGINALS)
    assert most_originals(settings, scheme, 40) == FEWEST_ORIGINALS, "in files and Python, where a process takes less"


# -- what the system offers --------------------------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_lowest_limit_of_the_control_groups_counts(tmp_path: Path) -> None:
    own, root = write(tmp_path / "cgroup", "0::/pod/worker\n"), tmp_path / "root"
    machine = available(own, root)
    assert machine > GIB // 4
    write(root / "memory.max", "max\n")
    assert available(own, root) == machine
    write(root / "pod" / "memory.max", "1000000\n")
    write(root / "pod" / "worker" / "memory.max", "2000000\n")
    assert available(own, root) == 1_000_000
    write(own, "4:cpu:/\n3:memory:/docker/a\n0::/\n")
    write(root / "memory" / "docker" / "a" / "memory.limit_in_bytes", "900000\n")
    assert available(own, root) == 900_000


def test_a_container_sees_its_limit_at_the_root(tmp_path: Path) -> None:
    own = write(tmp_path / "cgroup", "3:memory:/docker/of-the-host\n")
    write(tmp_path / "memory" / "memory.limit_in_bytes", "700000\n")
    assert available(own, tmp_path) == 700_000
    assert available(tmp_path / "missing", tmp_path) > 700_000, "no control groups at all"

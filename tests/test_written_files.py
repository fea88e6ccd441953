"""Wherever a file is written: no link leads the writing elsewhere, and what shows under its name is complete."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup import Deduplicator, filter_files, load_settings
from stream_dedup.errors import InputError
from stream_dedup.files import new_file, open_locked, replace_file
from stream_dedup.tools.evaluate.sampling import Sample

LINE = b'{"id": "1", "title": "The ferry stops", "text": "It stops on Monday, says the harbour."}\n'
Write = Callable[[Path], object]


def filtered(path: Path) -> None:
    filter_files([path.parent / "in.jsonl"], path, None, settings=load_settings())


def saved(path: Path) -> None:
    with Deduplicator() as dedup:
        dedup.save(path)


def sampled(path: Path) -> None:
    Sample.write(path.parent, [], [LINE.strip()])
    (path.parent / "corpus.jsonl").rename(path)


WRITERS: list[Write] = [filtered, saved, sampled, lambda path: replace_file(path, [b"x"])]


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    (tmp_path / "in.jsonl").write_bytes(LINE)
    (tmp_path / "victim").write_bytes(b"precious")
    return tmp_path


@pytest.mark.parametrize("write", WRITERS)
def test_a_link_under_a_name_that_can_be_guessed_is_not_followed(shared: Path, write: Write) -> None:
    guesses = [".out.part", f".out.{os.getpid()}.new", ".corpus.jsonl.part", ".pairs.jsonl.part"]
    for name in guesses:
        (shared / name).symlink_to(shared / "victim")
    write(shared / "out")
    assert (shared / "out").stat().st_size > 0
    assert not (shared / "out").is_symlink()
    assert (shared / "victim").read_bytes() == b"precious"
    assert all((shared / name).is_symlink() for name in guesses)


@pytest.mark.parametrize("write", WRITERS)
def test_even_a_link_under_the_very_name_is_refused(
    shared: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0" * 16)
    for name in ("out", "corpus.jsonl"):
        (shared / f".{name}.{'0' * 16}.part").symlink_to(shared / "victim")
    with pytest.raises((InputError, FileExistsError, AssertionError)):
        write(shared / "out")
    assert (shared / "victim").read_bytes() == b"precious"
    assert not (shared / "out").exists()


def test_what_a_killed_process_has_left_is_deleted_and_nothing_else(shared: Path) -> None:
    left, link, alive = (f".out.{digit * 16}.part" for digit in "123")
    for name in (left, ".out.part", ".out.12.part", f".other.{'1' * 16}.part"):
        (shared / name).write_bytes(b"half")
    (shared / link).symlink_to(shared / "victim")
    before = {path.name for path in shared.iterdir()}
    assert replace_file(shared / "out", [b"a", b"bc"]) == 3
    assert {path.name for path in shared.iterdir()} == before - {left} | {"out"}
    with open_locked(shared / alive), pytest.raises(InputError, match=rf"another process is at work on {shared}/out;"):
        replace_file(shared / "out", [b"x"])
    assert (shared / "out").read_bytes() == b"abc"
    assert {path.name for path in shared.iterdir()} == before - {left} | {"out", alive}


def test_an_interrupted_write_leaves_the_former_file_alone(shared: Path) -> None:
    def parts() -> object:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_file(shared / "victim", parts())  # type: ignore[arg-type]
    assert {path.name: path.read_bytes() for path in shared.iterdir()} == {"in.jsonl": LINE, "victim": b"precious"}


def test_a_file_that_grows_in_its_place_is_no_link(shared: Path) -> None:
    (shared / "link").symlink_to(shared / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        open_locked(shared / "link")


def test_others_may_read_the_file_as_the_umask_says(shared: Path) -> None:
    before = os.umask(0o027)
    try:
        new, file = new_file(shared / "out")
    finally:
        os.umask(before)
    file.close()
    assert new.stat().st_mode & 0o777 == 0o640


def test_a_file_is_locked_for_one_at_a_time(tmp_path: Path) -> None:
    first = open_locked(tmp_path / "lock")
    with pytest.raises(InputError, match="another process"):
        open_locked(tmp_path / "lock")
    first.close()
    open_locked(tmp_path / "lock").close()


def test_a_part_is_ours_until_it_has_its_name(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who begins to write the same file deletes the parts that nobody has locked."""
    rename, refused = Path.replace, []

    def interrupted(part: Path, path: Path) -> Path:
        with pytest.raises(InputError, match="another process is at work on"):
            new_file(path)
        refused.append(part)
        return rename(part, path)

    monkeypatch.setattr(Path, "replace", interrupted)
    assert replace_file(shared / "out", [b"whole"]) == 5
    assert (shared / "out").read_bytes() == b"whole"
    assert len(refused) == 1

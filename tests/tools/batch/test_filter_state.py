"""With a state directory a run continues the former memory or a killed run, or refuses and says why."""

import io
import resource
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.errors import CorruptBlock, InputError, SchemeMismatch
from stream_dedup.settings import load_settings
from stream_dedup.tools.batch.filter import FilterStep, filter_files
from tests.harness.feed import made_up
from tests.tools.batch.conftest import Outcome, Run, stop
from tests.tools.batch.feed import feed, story, write

DAY = 24


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def pipe_in(patch: pytest.MonkeyPatch, lines: list[bytes]) -> None:
    """Give the lines on standard input."""
    patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines))))


# -- one run after the other ---------------------------------------------------------------------------------


def parts_and_whole(
    run: Run, tmp_path: Path, state: Path, lines: list[bytes], size: int, **more: Any
) -> tuple[list[Path], Outcome]:
    """Filter the lines in runs of `size` lines and in one run, which must decide alike, also on who stands where."""
    parts = [write(tmp_path / f"part{i}", lines[i : i + size]) for i in range(0, len(lines), size)]
    whole = run(*parts, to="whole", **more)
    done = [run(part, state=state, to=f"to{i}", **more).bytes for i, part in enumerate(parts)]
    assert tuple(b"".join(one) for one in zip(*done, strict=True)) == whole.bytes
    return parts, whole


@pytest.mark.parametrize("verify", ["sketch", "exact"])
def test_runs_one_after_the_other_decide_as_one_run_would(run: Run, tmp_path: Path, state: Path, verify: str) -> None:
    parts_and_whole(run, tmp_path, state, feed(300), 100, fingerprint={"verify": verify})


def test_a_finished_run_is_not_done_twice(run: Run, tmp_path: Path, state: Path) -> None:
    """Or else all its items would be duplicates of themselves, and its output empty."""
    path, more = write(tmp_path / "in", feed(50)), {"state": state, "verdicts": tmp_path / "verdicts"}
    first = run(path, **more)
    before = first.bytes
    with pytest.raises(InputError, match="other settings"):
        run(path, decision={"novelty": "eager"}, **more)
    again = run(path, batch_items=17, **more)  # a setting that decides nothing
    assert again.bytes == before
    assert again.result.resumed == again.result.items == 50
    assert (again.result.unique, again.result.forwarded) == (first.result.unique, first.result.forwarded)
    for output in (tmp_path / "verdicts", first.output):
        output.write_bytes(b"")
        with pytest.raises(InputError, match=f"filtered already, but {output} is no longer"):
            run(path, **more)


def test_an_input_is_the_same_under_another_name(
    run: Run, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(tmp_path / "1", feed(12)), write(tmp_path / "2", feed(30, 2))]
    undisturbed = run(*paths, to="undisturbed").bytes
    stop(run, *paths, state=state, time=5)
    monkeypatch.chdir(tmp_path)
    assert run("1", "./2", state=Path("state")).bytes == undisturbed  # goes on
    assert run("1", "2", state=state).bytes == undisturbed  # is done already


def test_a_changed_input_is_another_run(run: Run, tmp_path: Path, state: Path) -> None:
    path = write(tmp_path / "in", [story(1)])
    run(path, state=state)
    write(path, [story(1), story(2)])
    done = run(path, state=state)
    assert done.lines == [story(2)]
    assert [row["id"] for row in done.rows] == ["s1"]


def test_standard_input_is_always_another_run(run: Run, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for expected in ("unique", "duplicate"):
        pipe_in(monkeypatch, [story(1)])
        assert getattr(run("-", state=state).result, expected) == 1


def test_another_scheme_is_refused(run: Run, tmp_path: Path, state: Path) -> None:
    run(write(tmp_path / "1", feed(20)), state=state)
    with pytest.raises(SchemeMismatch, match=r"journal: .*\[fingerprint\]") as refused:
        run(write(tmp_path / "2", feed(20, 2)), state=state, fingerprint={"verify": "exact"})
    assert "name another directory with --state" in str(refused.value)
    assert "migrate" not in str(refused.value), "that is for topics"


# -- growth --------------------------------------------------------------------------------------------------


def test_only_expired_originals_are_dropped_from_the_journal(run: Run, tmp_path: Path, state: Path) -> None:
    parts, whole = parts_and_whole(run, tmp_path, state, feed(300, hours=12), 20)
    assert run(*parts, to="longer", window={"length": "99d"}).result.unique < whole.result.unique  # some had expired
    assert min(whole.result.duplicate, whole.result.update) > 0


def test_originals_just_within_the_window_stay_in_the_journal(run: Run, tmp_path: Path, state: Path) -> None:
    hours = [story(60 + i, 4 * i) for i in range(81)]  # thirteen days and the nine times that the watermark is made of
    lines = [*(story(i) for i in range(50)), *hours[:36], story(50, 6.1 * DAY), *hours[36:]]
    run(write(tmp_path / "1", lines), state=state, batch_items=1)
    before = (state / "journal").stat().st_size
    run(write(tmp_path / "2", []), state=state)
    assert (state / "journal").stat().st_size < before / 2
    done = run(write(tmp_path / "3", [story(50, 13.05 * DAY, "copy")]), state=state)
    assert [row["id"] for row in done.rows] == ["copy"]


def test_the_beginning_of_a_long_run_can_be_dropped_too(run: Run, tmp_path: Path, state: Path) -> None:
    year = write(tmp_path / "year", [story(i, i * DAY) for i in range(365)])
    run(year, state=state)
    before = (state / "journal").stat().st_size
    done = run(write(tmp_path / "next", [story(364, 364 * DAY + 1, "copy"), story(1, 365 * DAY, "again")]), state=state)
    assert (state / "journal").stat().st_size < before / 10
    assert [(row["id"], row["original"]["file"], row["original"]["offset"]) for row in done.rows] == [
        ("copy", str(year), 365)
    ]


# -- a run that was killed -----------------------------------------------------------------------------------


def test_a_killed_run_goes_on_under_its_own_clock(run: Run, tmp_path: Path, state: Path) -> None:
    """An item that was in the future for its beginning stays so."""
    path = write(tmp_path / "in", [*feed(30), story(999, 1000 * DAY), *feed(30, 2)])
    undisturbed = run(path, to="undisturbed")
    stop(run, path, state=state)
    assert run(path, state=state, clock=lambda: 4e9).bytes == undisturbed.bytes


def test_a_killed_run_on_standard_input_goes_on_when_it_is_fed_again(
    run: Run, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = feed(60)
    undisturbed = run(write(tmp_path / "in", lines), to="undisturbed")
    pipe_in(monkeypatch, lines)
    stop(run, "-", state=state)
    pipe_in(monkeypatch, lines[1:])
    with pytest.raises(InputError, match="the first 10 lines of - are not those"):
        run("-", state=state)
    pipe_in(monkeypatch, lines)
    assert run("-", state=state).output.read_bytes() == undisturbed.output.read_bytes()


def test_a_killed_run_is_finished_before_another_begins(run: Run, tmp_path: Path, state: Path) -> None:
    path, other = write(tmp_path / "in put", feed(30)), write(tmp_path / "other", feed(30))
    stop(run, path, state=state)
    for inputs, to in (([other], "out"), ([path], "elsewhere"), ([path, other], "out")):
        with pytest.raises(InputError, match=f"finish it first, with its own arguments: {path} to "):
            run(*inputs, to=to, state=state)
    run(path, state=state)
    run(other, state=state)


def test_a_run_that_wrote_nothing_blocks_no_other_run(run: Run, tmp_path: Path, state: Path) -> None:
    """What was written before the first commit is not remembered, so another run would let it through again."""
    path, other = write(tmp_path / "in", feed(30)), write(tmp_path / "other", [story(1)])
    stop(run, path, state=state, step=FilterStep.COMMIT, time=1)
    with pytest.raises(InputError, match=r"finish it first, .*unique\.jsonl .*, or delete what it wrote there"):
        run(other, to="elsewhere", state=state)
    assert run(other, state=state).lines == [story(1)], "these outputs it cuts"
    stop(run, path, state=state, time=1)
    assert run(write(tmp_path / "third", [story(2)]), to="elsewhere", state=state).lines == [story(2)]


def test_a_killed_run_does_not_go_on_with_a_changed_input(run: Run, tmp_path: Path, state: Path) -> None:
    paths = [write(tmp_path / "1", feed(12)), write(tmp_path / "2", feed(30))]
    stop(run, *paths, state=state, time=5)
    write(paths[1], feed(30, 7))
    with pytest.raises(InputError, match=r"the first 8 lines of .*2 are not those"):
        run(*paths, state=state)
    write(paths[1], feed(30))
    with paths[0].open("ab") as file:
        file.write(story(5))
    with pytest.raises(InputError, match="1 changed since"):
        run(*paths, state=state)


def test_a_killed_run_does_not_go_on_with_an_output_that_lost_something(run: Run, tmp_path: Path, state: Path) -> None:
    path = write(tmp_path / "in", feed(30))
    stop(run, path, state=state)
    (tmp_path / "out" / "unique.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match=r"unique.jsonl has 0 bytes, but the journal knows of \d+"):
        run(path, state=state)


# -- the directory itself ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", ["state", "output"])
def test_two_processes_share_no_state_and_no_output(run: Run, tmp_path: Path, state: Path, shared: str) -> None:
    path, more = write(tmp_path / "in", feed(10)), {"state": state} if shared == "state" else {}

    def start_another(step: FilterStep) -> None:
        if step is FilterStep.WRITE:
            with pytest.raises(InputError, match="another process is at work on"):
                run(path, to="other" if more else "out", **more)

    assert run(path, announce=start_another, **more).result.items == 10


def test_a_damaged_journal_is_named_with_its_place(run: Run, tmp_path: Path, state: Path) -> None:
    path = write(tmp_path / "in", feed(60))
    run(path, state=state)
    whole = bytearray((state / "journal").read_bytes())
    whole[len(whole) // 2] ^= 1
    (state / "journal").write_bytes(whole)
    with pytest.raises(CorruptBlock, match=rf"{state}/journal, byte \d+:"):
        run(path, state=state)


@pytest.mark.parametrize("full", ["state", "output"])
def test_a_full_disk_is_named_and_after_it_the_same_command_ends_the_work(full: str, tmp_path: Path) -> None:
    """The kernel refuses to let a file grow, as on a full disk: RLIMIT_FSIZE needs no file system of its own."""
    items = tmp_path / "items.jsonl"
    articles = (value for _, value in made_up(2000))
    if full == "state":  # what is remembered of a short headline is larger than its line
        articles = (b'{"title": "%x"}' % (number * 2**32 // 7919) for number in range(2000))
    items.write_bytes(b"".join(value + b"\n" for value in articles))
    output, state = tmp_path / "out.jsonl", tmp_path / "state" if full == "state" else None
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (80_000, hard))
    try:
        with pytest.raises(InputError) as caught:
            filter_files([items], output, None, settings=load_settings(), state=state)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file = tmp_path / "state" / "journal" if full == "state" else output
    assert str(caught.value).startswith(f"cannot write {file}: File too large")
    if full == "state":
        assert "run the same command again: it continues where it stopped" in str(caught.value)
    result = filter_files([items], output, None, settings=load_settings(), state=state)
    assert result.items == 2000
    assert len(output.read_bytes().splitlines()) == result.forwarded

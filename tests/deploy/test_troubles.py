"""docs/troubles.md: each error and each alert has a row, and a row of an error agrees with what the worker does."""

import re

import pytest

from stream_dedup import errors
from stream_dedup.worker import records, worker
from tests.deploy.files import DEPLOY
from tests.deploy.test_docs import alerts

PAGE = (DEPLOY.parent / "docs" / "troubles.md").read_text("utf-8")
# Only the first table; tests/test_errors.py checks that of all classes.
TABLE = [line for line in PAGE.partition("\n## ")[0].splitlines() if line.startswith("| ")][2:]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE]
# Errors of files, of scripts and of a single item, which do not end a worker.
_NOT_OF_THE_WORKER = {errors.InputError, errors.UsageError, errors.BadItem}


def worker_errors() -> list[type[errors.StreamDedupError]]:
    """Return all error classes except the base class and those that do not occur in a worker."""
    classes = [
        cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.StreamDedupError)
    ]
    return [cls for cls in classes if cls is not errors.StreamDedupError and cls not in _NOT_OF_THE_WORKER]


def test_each_row_is_complete() -> None:
    words = re.findall(r"^- \*\*([a-z -]+)\*\*:", PAGE, re.M)
    for row in ROWS:
        assert len(row) == 6, row
        assert any(row[2].startswith(word) for word in words), f"{row[0]}: {row[2]!r} begins with none of {words}"
        assert row[3].startswith(("nothing", "memory: ", "the records that retention has deleted")), row
        assert row[4], row


@pytest.mark.parametrize("error", worker_errors(), ids=lambda error: str(error.__name__))
def test_the_worker_retries_an_error_as_its_row_says(error: type[errors.StreamDedupError]) -> None:
    rows = [row for row in ROWS if f"`{error.__name__}`" in row[1]]
    assert rows, f"{error.__name__} has no row"
    is_retried = issubclass(error, (*worker._RETRYABLE, errors.Interrupted))
    for row in rows:
        assert row[2].startswith("ends") is not is_retried, row


@pytest.mark.parametrize("error", worker_errors(), ids=lambda error: str(error.__name__))
def test_no_error_that_ends_the_worker_has_a_row_that_waits_or_goes_on(error: type[errors.StreamDedupError]) -> None:
    is_retried = issubclass(error, (*worker._RETRYABLE, errors.Interrupted))
    verbs = {re.split("[ ,;]", row[2])[0] for row in ROWS if f"`{error.__name__}`" in row[1]}
    assert verbs <= ({"retries", "waits", "dead-letters"} if is_retried else {"ends"})


@pytest.mark.parametrize(
    "reason", ["type", "compressed", records.TOO_LARGE, records.REFUSED, records.HEADER, "internal"]
)
def test_a_dead_letter_of_the_worker_has_its_row(reason: str) -> None:
    assert [row[2].startswith("dead-letters") for row in ROWS if f"`{reason}`" in row[1]] == [True]


def test_each_alert_has_a_row_and_each_named_alert_exists() -> None:
    named = {name for row in ROWS for name in re.findall(r"StreamDedup\w+", row[5])}
    assert named == set(alerts())

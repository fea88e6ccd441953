"""docs/troubles.md: each error has its row and says what the worker really does; each alert has a row too."""

import re

import pytest

from stream_dedup import errors
from stream_dedup.stream import records, worker
from tests.deploy.files import DEPLOY
from tests.deploy.test_docs import alerts

PAGE = (DEPLOY.parent / "docs" / "troubles.md").read_text("utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")][
    2:
]
# Of files, of scripts, and of one item: no worker meets them as its own.
_ELSEWHERE = {errors.InputError, errors.UsageError, errors.BadItem}


def of_the_worker() -> list[type[errors.StreamDedupError]]:
    """All classes of the tree that have a meaning of their own."""
    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.StreamDedupError)]
    return [one for one in found if one is not errors.StreamDedupError and one not in _ELSEWHERE]


def test_each_row_is_complete() -> None:
    words = re.findall(r"^- \*\*([a-z -]+)\*\*:", PAGE, re.M)
    for row in ROWS:
        assert len(row) == 6, row
        assert any(row[2].startswith(word) for word in words), f"{row[0]}: {row[2]!r} begins with none of {words}"
        assert row[3].startswith(("nothing", "memory: ", "the records that retention has deleted")), row
        assert row[4], row


@pytest.mark.parametrize("error", of_the_worker(), ids=lambda one: str(one.__name__))
def test_an_error_does_what_its_row_says(error: type[errors.StreamDedupError]) -> None:
    rows = [row for row in ROWS if f"`{error.__name__}`" in row[1]]
    assert rows, f"{error.__name__} has no row"
    is_tried_again = issubclass(error, (*worker._RETRYABLE, errors.Interrupted))
    for row in rows:
        assert row[2].startswith("ends") is not is_tried_again, row


@pytest.mark.parametrize("reason", [records.TOO_LARGE, records.REFUSED, records.HEADER, "internal"])
def test_a_dead_letter_of_the_worker_has_its_row(reason: str) -> None:
    assert [row[2].startswith("dead-letters") for row in ROWS if f"`{reason}`" in row[1]] == [True]


def test_each_alert_has_a_row_and_each_row_names_alerts_that_exist() -> None:
    named = {name for row in ROWS for name in re.findall(r"StreamDedup\w+", row[5])}
    assert named == set(alerts())

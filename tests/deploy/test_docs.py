"""Every alert has a section in deploy/alerts.md, every topic a right in deploy/README.md, every error a row in
docs/troubles.md that agrees with what the worker does.
"""

import re

import pytest

from stream_dedup import errors
from stream_dedup.settings import Settings
from stream_dedup.worker import outgoing
from tests.deploy.files import DEPLOY, documents
from tests.test_errors import every_class, fate

[RULES] = documents(DEPLOY / "prometheus" / "rules.yml")
ALERTS = {rule["alert"] for group in RULES["groups"] for rule in group["rules"] if "alert" in rule}


def test_every_alert_has_a_section_and_every_section_an_alert() -> None:
    sections = re.findall(r"^### (StreamDedup\w+)$", (DEPLOY / "alerts.md").read_text("utf-8"), re.M)
    assert sorted(sections) == sorted(ALERTS)


def test_the_rights_name_all_topics_the_group_and_the_transactional_ids() -> None:
    settings = Settings()
    rights = (DEPLOY / "README.md").read_text("utf-8").split("## Topics and rights")[1].split("\n## ")[0]
    for topic in settings.topics.model_dump().values():
        assert f"--topic {topic}" in rights
    assert f"--group {settings.kafka.group_id}" in rights
    assert f"--transactional-id {settings.kafka.group_id}-" in rights


PAGE = (DEPLOY.parent / "docs" / "troubles.md").read_text("utf-8")
TABLE = [line for line in PAGE.splitlines() if line.startswith("| ")][2:]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE]
# Errors of files, of scripts and of a single item do not end a worker.
OF_THE_WORKER = [one for one in every_class() if one not in (errors.InputError, errors.UsageError, errors.BadItem)]


def test_each_row_is_complete() -> None:
    words = re.findall(r"^- \*\*([a-z -]+)\*\*:", PAGE, re.M)
    for row in ROWS:
        assert len(row) == 6, row
        assert any(row[2].startswith(word) for word in words), f"{row[0]}: {row[2]!r} begins with none of {words}"
        assert row[3].startswith(("nothing", "memory: ", "the records that retention has deleted")), row
        assert row[4], row


@pytest.mark.parametrize("error", OF_THE_WORKER, ids=lambda error: str(error.__name__))
def test_the_worker_does_about_an_error_what_its_rows_say(error: type[errors.StreamDedupError]) -> None:
    verbs = {re.split("[ ,;]", row[2])[0] for row in ROWS if f"`{error.__name__}`" in row[1]}
    assert verbs, f"{error.__name__} has no row"
    assert verbs <= ({"ends"} if fate(error) == "ends" else {"retries", "waits", "dead-letters"})


@pytest.mark.parametrize(
    "reason", ["type", "compressed", outgoing.TOO_LARGE, outgoing.REFUSED, outgoing.HEADER, "internal"]
)
def test_a_dead_letter_of_the_worker_has_its_row(reason: str) -> None:
    assert [row[2].startswith("dead-letters") for row in ROWS if f"`{reason}`" in row[1]] == [True]


def test_each_alert_has_a_row_and_each_named_alert_exists() -> None:
    named = {name for row in ROWS for name in re.findall(r"StreamDedup\w+", row[5])}
    assert named == ALERTS

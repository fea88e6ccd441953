"""deploy/README.md: it has a section for every alert and a right for every topic; its commands and links exist."""

import re

import pytest
import typer
import yaml
from typer.main import get_command

from stream_dedup.cli.main import app
from stream_dedup.settings import Settings
from tests.deploy.files import DEPLOY

README = (DEPLOY / "README.md").read_text("utf-8")
RULES = DEPLOY / "prometheus" / "rules.yml"


def alerts() -> list[str]:
    """Return the names of the alerts; none if the rules are missing."""
    if not RULES.exists():
        return []
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]


def test_every_alert_has_a_section_and_every_section_an_alert() -> None:
    sections = re.findall(r"^### (StreamDedup\w+)$", README, re.M)
    assert len(sections) == len(set(sections))
    if alerts():
        assert set(sections) == set(alerts())


def test_the_rights_name_all_topics_the_group_and_the_transactional_ids() -> None:
    settings = Settings()
    rights = README.split("## Topics and rights")[1].split("\n## ")[0]
    for topic in settings.topics.model_dump().values():
        assert f"--topic {topic}" in rights
    assert f"--group {settings.kafka.group_id}" in rights
    assert f"--transactional-id {settings.kafka.group_id}-" in rights


@pytest.mark.parametrize("words", sorted(set(re.findall(r"`stream-dedup ([a-z ]+)", README))))
def test_the_commands_exist(words: str) -> None:
    """Resolving raises UsageError for an unknown command."""
    command = get_command(app)
    for word in words.split():
        _, command, _ = command.resolve_command(typer.Context(command), [word])  # type: ignore[attr-defined]


def test_links_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if not link.startswith("prometheus/") or RULES.exists():
            assert (DEPLOY / link).exists(), link

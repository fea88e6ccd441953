"""deploy/README.md: it has a section for every alert and a right for every topic."""

import re

import yaml

from stream_dedup.settings import Settings
from tests.deploy.files import DEPLOY

README = (DEPLOY / "README.md").read_text("utf-8")
RULES = DEPLOY / "prometheus" / "rules.yml"


def alerts() -> list[str]:
    """Return the names of the alerts."""
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]


def test_every_alert_has_a_section_and_every_section_an_alert() -> None:
    sections = re.findall(r"^### (StreamDedup\w+)$", README, re.M)
    assert len(sections) == len(set(sections))
    assert set(sections) == set(alerts())


def test_the_rights_name_all_topics_the_group_and_the_transactional_ids() -> None:
    settings = Settings()
    rights = README.split("## Topics and rights")[1].split("\n## ")[0]
    for topic in settings.topics.model_dump().values():
        assert f"--topic {topic}" in rights
    assert f"--group {settings.kafka.group_id}" in rights
    assert f"--transactional-id {settings.kafka.group_id}-" in rights

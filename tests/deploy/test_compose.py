"""The compose file: valid by its schema, images pinned, everything it mounts is there, secrets nowhere."""

import re
import subprocess
import sys

import pytest
import typer
from typer.main import get_command

from stream_dedup.cli.main import app
from stream_dedup.settings import PREFIX, load_settings
from tests.deploy.files import DEPLOY, documents

[COMPOSE] = documents(DEPLOY / "compose.yaml")
SERVICES = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"].startswith("stream-dedup:")}


def test_it_is_valid_by_the_schema_of_compose_files() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_has_a_version(name: str) -> None:
    assert re.search(r":v?\d+\.\d+\.\d+$", SERVICES[name]["image"])


def test_two_workers_wait_for_topics_that_wait_for_kafka() -> None:
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    assert SERVICES["worker"]["depends_on"]["topics"]["condition"] == "service_completed_successfully"
    assert SERVICES["topics"]["depends_on"]["kafka"]["condition"] == "service_healthy"


@pytest.mark.parametrize("name", OURS)
def test_ours_run_read_only_and_without_rights(name: str) -> None:
    service = OURS[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    [tmp] = service["tmpfs"]
    assert tmp.startswith("/tmp:")  # noqa: S108 - a path of the container


@pytest.mark.parametrize("name", OURS)
def test_what_ours_are_told_is_a_command_and_settings_that_exist(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = get_command(app)
    for word in OURS[name].get("command", ["run"]):
        if word.startswith("-"):
            break
        _, command, _ = command.resolve_command(typer.Context(command), [word])  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in OURS[name].get("command", []) if word.startswith("-")} <= options
    for variable, value in OURS[name]["environment"].items():
        assert variable.startswith(PREFIX)
        monkeypatch.setenv(variable, value)
    load_settings()


def test_nothing_listens_beyond_this_machine() -> None:
    for service in SERVICES.values():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")


def test_what_it_mounts_is_in_the_repository_or_a_volume_of_its_own() -> None:
    """The rules, the scrape settings and the dashboard come with the monitoring; all or nothing of them is there."""
    mounted = {one.split(":")[0] for service in SERVICES.values() for one in service.get("volumes", ())}
    files = {one for one in mounted if one.startswith("./")}
    assert mounted - files == set(COMPOSE["volumes"])
    there = {one for one in files if (DEPLOY / one).exists()}
    assert there in (files, set())

"""The compose file: valid, with pinned images and existing mounts, and reachable from this machine only."""

import re
import subprocess
import sys
from itertools import takewhile

import pytest

from stream_dedup.settings import PREFIX, load_settings
from tests.cli.commands import COMMANDS
from tests.deploy.files import DEPLOY, dockerfile, documents
from tests.lab.load.test_memory_limit import MEMORY

[COMPOSE] = documents(DEPLOY / "compose.yaml")
SERVICES = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("stream-dedup:")}


def test_the_worker_s_memory_is_that_of_the_load_test() -> None:
    limit = SERVICES["worker"]["deploy"]["resources"]["limits"]["memory"]
    assert load_settings(worker={"memory": limit}).worker.memory == MEMORY


def test_the_file_matches_the_schema_of_compose_files() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_image_has_a_version_and_nothing_listens_beyond_this_machine() -> None:
    for service in SERVICES.values():
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


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
    assert "user" not in service, "the image's own"
    for volume in service.get("volumes", ()):
        source, folder, *_ = volume.split(":")
        if source in COMPOSE["volumes"]:
            assert f"install --directory --owner 10001 --group 10001 {folder}\n" in dockerfile(), "else it is root's"


def test_a_runtime_that_restarts_what_is_unhealthy_restarts_only_what_is_stuck() -> None:
    assert "healthcheck" not in OURS["worker"], "the image's own"
    assert re.findall(r"HEALTHCHECK .*\s+CMD (.+)", dockerfile()) == [
        '["python3", "-m", "stream_dedup.observe.probe", "/livez"]'
    ]


@pytest.mark.parametrize("name", OURS)
def test_commands_options_and_settings_of_our_services_exist(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = OURS[name].get("command", ["run"])
    words = takewhile(lambda word: not word.startswith("-"), command)
    known = {option for parameter in COMMANDS[" ".join(words)].params for option in parameter.opts}
    assert {word for word in command if word.startswith("-")} <= known
    for variable, value in OURS[name]["environment"].items():
        assert variable.startswith(PREFIX)
        monkeypatch.setenv(variable, value)
    load_settings()


def test_every_mount_is_a_file_of_the_repository_or_a_declared_volume() -> None:
    mounted = {path.split(":")[0] for service in SERVICES.values() for path in service.get("volumes", ())}
    files = {path for path in mounted if path.startswith("./")}
    assert mounted - files == set(COMPOSE["volumes"])
    assert all((DEPLOY / path).exists() for path in files)

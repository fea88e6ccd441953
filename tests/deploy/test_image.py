"""The image, built from its Dockerfile in a clean Debian, works read-only and as an unprivileged user.

`make operate` runs these tests: they take minutes and need root and Debian packages. image.py replaces a container
engine. The figures are added to tests/lab/results/operate.json.
"""

import resource
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup.tools.demo.embedded import EmbeddedKafka
from tests.deploy import image as images
from tests.deploy.image import Builder, Container, Image
from tests.deploy.test_wheel import ROWS, VERDICT
from tests.harness.check import assert_exactly_once
from tests.harness.feed import feed, made_up
from tests.harness.topics import make_settings, variables_of, worked_off
from tests.lab.measured import record

pytestmark = [pytest.mark.operate, pytest.mark.kafka, pytest.mark.timeout(2400)]


def save_figures(**figures: float | int | str) -> None:
    """Add figures to the results and keep the existing ones."""
    record("operate", figures)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if reason := images.missing_requirements():
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("image")
    save_figures(image_steps_ok=False, starts_read_only=False, health_ok=False)
    with closing(Builder(directory)) as builder:
        start = time.monotonic()
        built = builder.build()
        size = sum(path.lstat().st_size for path in built.root.rglob("*") if path.is_file() and not path.is_symlink())
        save_figures(image_steps_ok=True, image_steps=built.steps, image_mib=size >> 20)
        save_figures(image_build_s=round(time.monotonic() - start))
        yield built
    shutil.rmtree(directory)


def is_healthy(image: Image, variables: dict[str, str], path: str = "/livez") -> bool:
    """Run the image's health check in it, or the same for another path; return whether it passes."""
    kind, *command, asked = image.config["Healthcheck"]["Test"]
    assert kind == "CMD", "a check through a shell would need a shell in the image"
    assert asked == "/livez"
    return images.run(image, variables, *command, path).returncode == 0


def test_the_worker_runs_read_only_and_unprivileged(
    image: Image, kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    settings = make_settings(kafka.bootstrap, topic_name)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    variables = variables_of(settings) | {"STREAM_DEDUP_OBSERVE__PORT": str(port)}
    created = images.run(image, variables, "stream-dedup", "topics", "create", "--partitions", "2")
    assert created.returncode == 0, created.stderr
    assert not is_healthy(image, variables), "nothing runs yet"

    start = time.monotonic()
    container = Container(image, variables, tmp_path / "worker.log")
    try:
        while not is_healthy(image, variables, "/healthz"):
            assert container.ended() is None, container.text()
            assert time.monotonic() - start < 120, container.text()
            time.sleep(0.2)
        assert is_healthy(image, variables)
        save_figures(starts_read_only=True, health_ok=True, image_start_s=round(time.monotonic() - start, 1))
        sent = feed(settings, made_up(2000), partition=0)
        worked_off(settings, 120)

        status = container.status()
        assert status["Uid"].split() == ["10001"] * 4
        assert status["CapEff"] == status["CapPrm"] == status["CapBnd"] == "0" * 16
        assert status["NoNewPrivs"] == "1"
        save_figures(image_rss_mib=container.memory() >> 20)
        save_figures(image_stop_s=round(container.stop(), 1))
    finally:
        container.kill()
    assert container.ended() == 0, container.text()
    assert_exactly_once(settings, sent)
    assert not is_healthy(image, variables)


def measured_run(image: Image, name: str, *command: str) -> str:
    """Run a command in the image, save its processor time (other programs may run meanwhile), and return its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = images.run(image, {}, *command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    save_figures(**{f"image_first_{name}_cpu_s": round(sum(after[:2]) - sum(before[:2]), 1)})
    return done.stdout


def test_the_first_filter_and_the_first_verdict(image: Image) -> None:
    script = 'echo "$0" > in.jsonl; stream-dedup filter in.jsonl --output out >/dev/null; cat out; ls'
    *passed, first, second = measured_run(image, "filter", "sh", "-c", script, ROWS).splitlines()
    assert 0 < len(passed) < len(ROWS.splitlines())
    assert set(passed) <= set(ROWS.splitlines())
    assert (first, second) == ("in.jsonl", "out"), "nothing else is written"
    assert measured_run(image, "verdict", "python3", "-c", VERDICT) == "unique stream_dedup.script\n"


def test_a_new_volume_for_the_state_of_feeds_belongs_to_the_user(image: Image) -> None:
    folder = (image.root / "var/lib/stream-dedup").stat()
    assert f"{folder.st_uid}:{folder.st_gid}" == image.config["User"]


def test_nothing_but_tmp_can_be_written(image: Image) -> None:
    for directory in ("/", "/var/lib/stream-dedup", "/opt/stream-dedup", "/etc", "/var/tmp", "/home", "/dev"):  # noqa: S108 - the container's
        attempt = images.run(image, {}, "touch", f"{directory}/file")
        assert attempt.returncode != 0, directory
    assert images.run(image, {}, "touch", "/tmp/file").returncode == 0  # noqa: S108


def test_the_image_has_no_setuid_programs_no_pip_and_no_compiler(image: Image) -> None:
    assert not list((image.root / "usr" / "bin").glob("*gcc*"))
    site = next((image.root / "opt/stream-dedup/lib").glob("python*/site-packages"))
    assert not (site / "pip").exists()
    assert (site / "stream_dedup-0.1.0.dist-info/METADATA").exists(), "scanners find packages by their metadata"
    assert (image.root / "var/lib/dpkg/status").exists()
    assert not any(path.stat().st_mode & 0o6000 for path in (image.root / "opt").rglob("*") if path.is_file())

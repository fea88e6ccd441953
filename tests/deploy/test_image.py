"""The image is built from its Dockerfile in a clean Debian, and its entry point works read-only and as nobody.

Minutes, root and Debian's packages are needed: `make operate` runs it. See image.py for what stands in for a container
engine. The figures go to tests/results/operate.json, beside what other runs wrote there.
"""

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.demo.run import count_committed
from stream_dedup.settings import Settings
from tests.deploy import image as images
from tests.deploy.image import Builder, Container, Image
from tests.operate import results
from tests.stream.support import assert_exactly_once, feed, made_up, make_settings

pytestmark = [pytest.mark.operate, pytest.mark.kafka, pytest.mark.timeout(2400)]


def keep(**figures: float | int | str) -> None:
    """Adds to the results what was found; what others found stays."""
    results.add(figures)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if why := images.missing():
        pytest.skip(why)
    directory = tmp_path_factory.mktemp("image")
    keep(image_steps_ok=False, starts_read_only=False, health_ok=False)
    with Builder(directory) as builder:
        began = time.monotonic()
        built = builder.build()
        size = sum(one.lstat().st_size for one in built.root.rglob("*") if one.is_file() and not one.is_symlink())
        keep(image_steps_ok=True, image_steps=built.steps, image_mib=size >> 20)
        keep(image_build_s=round(time.monotonic() - began))
        yield built
    shutil.rmtree(directory)


def environment(settings: Settings, port: int) -> dict[str, str]:
    """The settings as a container gets them."""
    given = {f"STREAM_DEDUP_TOPICS__{role.upper()}": name for role, name in settings.topics.model_dump().items()}
    return given | {
        "STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "STREAM_DEDUP_KAFKA__GROUP_ID": settings.kafka.group_id,
        "STREAM_DEDUP_OBSERVE__PORT": str(port),
    }


def is_well(image: Image, given: dict[str, str]) -> bool:
    """Whether the image's own health check says so."""
    kind, *command = image.config["Healthcheck"]["Test"]
    assert kind == "CMD", "a check through a shell would need a shell"
    return images.run(image, given, *command).returncode == 0


def wait_until_judged(settings: Settings, count: int, container: Container) -> None:
    topics, deadline = settings.topics, time.monotonic() + 120
    while sum(count_committed(settings, one) for one in (topics.output, topics.duplicates)) < count:
        assert time.monotonic() < deadline, container.text()
        time.sleep(0.2)


def test_it_works_read_only_and_as_nobody_and_compiles_nothing(
    image: Image, kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    settings = make_settings(kafka.bootstrap, topic_name)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    given = environment(settings, port)
    made = images.run(image, given, "entrypoint", "topics", "create", "--partitions", "2")
    assert made.returncode == 0, made.stderr
    assert not is_well(image, given), "nothing runs yet"

    began = time.monotonic()
    container = Container(image, given, tmp_path / "worker.log")
    try:
        while not is_well(image, given):
            assert container.ended() is None, container.text()
            assert time.monotonic() - began < 120, container.text()
            time.sleep(0.2)
        keep(starts_read_only=True, health_ok=True, image_start_s=round(time.monotonic() - began, 1))
        sent = feed(settings, made_up(2000), partition=0)
        wait_until_judged(settings, len(sent), container)

        status = container.status()
        assert status["Uid"].split() == ["10001"] * 4
        assert status["CapEff"] == status["CapPrm"] == status["CapBnd"] == "0" * 16
        assert status["NoNewPrivs"] == "1"
        built = image.root / "opt/stream-dedup/kernels"
        prebuilt = sorted(str(one.relative_to(built)) for one in built.rglob("*.nb?"))
        assert prebuilt
        assert container.kernels() == prebuilt
        keep(image_rss_mib=container.memory() >> 20)
        keep(image_stop_s=round(container.stop(), 1))
    finally:
        container.kill()
    assert container.ended() == 0, container.text()
    assert_exactly_once(settings, sent)
    assert not is_well(image, given)


def test_nothing_but_tmp_can_be_written(image: Image) -> None:
    for place in ("/", "/opt/stream-dedup", "/etc", "/var/tmp", "/home", "/dev"):  # noqa: S108 - the container's
        tried = images.run(image, {}, "touch", f"{place}/file")
        assert tried.returncode != 0, place
    assert images.run(image, {}, "touch", "/tmp/file").returncode == 0  # noqa: S108


def test_without_a_tmp_it_says_what_is_missing(image: Image) -> None:
    tried = images.run(image, {"NUMBA_CACHE_DIR": "/opt/nowhere"}, "entrypoint", "--version")
    assert tried.returncode == 2
    assert "mount a tmpfs at /tmp" in tried.stderr


def test_no_program_in_it_gives_another_user_s_rights_and_no_pip_is_left(image: Image) -> None:
    site = next((image.root / "opt/stream-dedup/lib").glob("python*/site-packages"))
    assert not (site / "pip").exists()
    assert (site / "stream_dedup-0.1.0.dist-info/METADATA").exists(), "a scanner finds packages by their records"
    assert (image.root / "var/lib/dpkg/status").exists()
    assert not any(one.stat().st_mode & 0o6000 for one in (image.root / "opt").rglob("*") if one.is_file())

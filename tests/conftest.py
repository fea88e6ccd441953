"""Fixtures of all tests: one real Kafka for the whole run (`kafka`), fresh topic names, and a page of a real Chromium.

A test that uses `kafka` carries `@pytest.mark.kafka`. It is skipped, with the reason, where the broker cannot be
downloaded; tests in a browser are skipped where Chromium is missing. Under CI=true Chromium is installed, and a skip is
a failure.
"""

import os
import re
import shutil
import uuid
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.debian import apt

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.broker import EmbeddedKafka

# The first example fills caches, and the machine is busy: a deadline would measure that.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
IN_CI = os.environ.get("CI") == "true"


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python 3.0.12 loads its protocol through calls that Python 3.11 and 3.12 want replaced; warnings
    # are errors here, and without this line `import kafka` fails.
    config.addinivalue_line("filterwarnings", "ignore:(open|read)_text is deprecated:DeprecationWarning")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests on the real Kafka in one process, with one broker: they mostly wait, and other tests run beside.

    Tests in a browser run in one process, too: two processes would install it at once.
    """
    for item in items:
        if item.get_closest_marker("kafka"):
            item.add_marker(pytest.mark.xdist_group("kafka"))
        elif "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("chromium"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"a skip, and under CI nothing is skipped: {report.longrepr}"
    return report


# A whole module is skipped by importorskip.
pytest_make_collect_report = pytest_runtest_makereport


@pytest.fixture(scope="session")
def kafka_prepared() -> None:
    """Kafka's jars are on this machine."""
    from stream_dedup.errors import StreamError
    from tests.broker import prepare

    try:
        prepare()
    except StreamError as e:
        if IN_CI:
            raise
        pytest.skip(str(e))


@pytest.fixture(scope="session")
def kafka(kafka_prepared: None) -> "Iterator[EmbeddedKafka]":
    """The broker that all tests of a run share. A test that kills or stops a broker starts its own (1 s)."""
    from tests.broker import EmbeddedKafka

    with EmbeddedKafka() as broker:
        yield broker


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """`topic_name("input")` returns a name that no other test has, with the name of this test in it."""
    test = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name)[:80]  # Kafka allows 249 of few characters

    def unique(role: str) -> str:
        return f"{role}-{test}-{uuid.uuid4().hex[:8]}"

    return unique


@pytest.fixture(scope="module")
def small_tree() -> Iterator[None]:
    """A recent tree that is full after a few rows, so that a small test sees runs and merges."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_dedup.index.hybrid.RECENT_ROWS", 16)
        yield


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the path of Chromium."""
    path = shutil.which("chromium")
    if path is None and IN_CI and os.geteuid() == 0:
        apt(["update", "-q"], ["install", "-qy", "--no-install-recommends", "chromium"])
        path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium; install it: apt-get install chromium")
    return path


@pytest.fixture(scope="module")  # playwright runs an event loop in this thread, which other modules must not share
def browser(chromium: str) -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: "Browser") -> "Iterator[Page]":
    page = browser.new_page()
    yield page
    page.close()

"""A clock, a watched worker, and a real Chromium: CI installs it; elsewhere its tests are skipped if it is missing."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.conftest import IN_CI
from tests.debian import apt

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.observe.watched import Clock, Watched


@pytest.fixture(autouse=True)
def _rendered_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees at once what it has just changed."""
    monkeypatch.setattr("stream_dedup.observe.page.KEPT_SECONDS", 0.0)


@pytest.fixture
def clock() -> "Clock":
    from tests.observe.watched import Clock  # loads the Kafka client, which takes what tests/conftest.py configures

    return Clock()


@pytest.fixture
def watched() -> "Iterator[Watched]":
    from tests.observe.watched import Watched

    with Watched() as worker:
        yield worker


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

"""A real Chromium, Debian's: found, under CI installed, elsewhere the tests that need it are skipped."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.conftest import IN_CI

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def chromium() -> str:
    """Its path."""
    found = shutil.which("chromium")
    if found is None and IN_CI and os.geteuid() == 0:
        for command in (["update", "-q"], ["install", "-qy", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", *command], check=True, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})
        found = shutil.which("chromium")
    if found is None:
        pytest.skip("there is no chromium; install it: apt-get install chromium")
    return found


@pytest.fixture(scope="module")  # it keeps an event loop running in this thread, which is nobody else's business
def browser(chromium: str) -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()

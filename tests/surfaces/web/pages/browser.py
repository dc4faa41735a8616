"""The browser of the dashboard's tests: any installed Chromium, driven by Playwright.

`make test` installs one if it can; otherwise these tests are skipped, with the reason. HEADRACE_TEST_BROWSER is the
path of another browser, or `none` to skip these tests.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
SHOTS = Path(__file__).parents[4] / ".shots"  # ignored by git
# Messages of the browser itself: it also logs pages that are refused on purpose.
EXPECTED = ("Failed to load resource",)


def executable() -> str:
    given = os.environ.get("HEADRACE_TEST_BROWSER")
    if given == "none":
        pytest.skip("HEADRACE_TEST_BROWSER=none: the dashboard is not tried in a browser")
    found = given or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(
            f"no browser to try the dashboard in: none of {', '.join(NAMES)} is installed. Install one "
            "(apt-get install chromium), or name it with HEADRACE_TEST_BROWSER"
        )
    return found


@contextmanager
def open_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Chromium's sandbox needs rights that root in a container lacks.
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Complaints:
    """What went wrong inside a page: errors of scripts, and what the Content-Security-Policy forbade."""

    def __init__(self, page: Page) -> None:
        self.messages: list[str] = []
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("console", self._hear)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            self.messages.append(message.text)

"""A dashboard on its own store, served over a real socket, and a page of it in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from headrace import Headrace
from tests.support.site import Site, serve
from tests.support.waiting import PATIENCE
from tests.surfaces.web.pages.browser import Complaints, open_browser

expect.set_options(timeout=1000 * PATIENCE)


# One browser for a module, and not for the run: while Playwright is open, this thread has an event loop, and a test
# elsewhere that starts its own would fail.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Headrace]:
    with Headrace(f"sqlite:///{tmp_path / 'jobs.db'}", heartbeat=1.0, shutdown_timeout=2.0) as app:
        yield app


@pytest.fixture
def site(app: Headrace) -> Iterator[Site]:
    with serve(app) as site:
        yield site


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US", timezone_id="Europe/Vienna")
    context.set_default_timeout(1000 * PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """A page on which a script error or a policy violation fails the test.

    Keys are pressed once the page's scripts are loaded, because people are slower than a test.
    """
    page = context.new_page()
    press = page.keyboard.press

    def press_when_heard(key: str, **how: Any) -> None:
        page.wait_for_selector("html[data-ready]", state="attached")
        press(key, **how)

    monkeypatch.setattr(page.keyboard, "press", press_when_heard)
    complaints = Complaints(page)
    yield page
    assert complaints.messages == []


@pytest.fixture
def visit(page: Page, site: Site) -> Callable[[str], Page]:
    def go(path: str) -> Page:
        page.goto(site.url + path)
        return page

    return go


@pytest.fixture
def tasks(app: Headrace) -> dict[str, Any]:
    """Tasks that these tests run."""
    from tests.surfaces.web.pages.tasks import register

    return register(app)

"""Every page in a browser: no script error, no policy violation, accessible, and fit for a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from headrace import Headrace
from tests.support.site import serve
from tests.surfaces.web.pages.browser import SHOTS
from tests.surfaces.web.pages.tasks import populate

pytestmark = pytest.mark.slow

PATHS = {
    "overview": "/",
    "queues": "/queues",
    "queue": "/queues/orders",
    "workers": "/workers",
    "jobs": "/jobs",
    "jobs-failed": "/jobs?state=failed&queue=orders",
    "jobs-none": "/jobs?task=nothing",
    "job-completed": "/jobs/{completed}",
    "job-failed": "/jobs/{failed}",
    "job-hostile": "/jobs/{hostile}",
    "job-retrying": "/jobs/{retrying}",
    "job-waiting": "/jobs/{waiting}",
    "job-pending": "/jobs/{pending}",
    "enqueue": "/enqueue?like={completed}",
    "missing": "/jobs/nothing",
}
axe = Axe()


# Pages with different components. The other theme has only other colors.
LOOKED_AT = {
    "light": {"overview", "queues", "queue", "workers", "worker", "jobs-failed", "job-failed", "job-running"}
    | {"job-waiting", "enqueue", "missing"},
    "dark": {"overview", "queue", "workers", "jobs-failed", "job-failed"},
}
RULES = {"light": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"], "dark": ["color-contrast"]}


def violations(page: Page, scheme: str) -> list[str]:
    found = axe.run(page, options={"runOnly": RULES[scheme]})
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found.response["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_valid_and_accessible(
    app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page], scheme: Any
) -> None:
    ids = populate(app, tasks)
    wrong: dict[str, list[str]] = {}
    visit("/healthz").emulate_media(color_scheme=scheme)
    held = tasks["hold"].enqueue("x")
    with app.worker(concurrency=2, queues=["slow"]) as worker:
        while held.refresh().progress is None:
            pass
        more = {"worker": f"/workers/{worker.id}", "job-running": f"/jobs/{held.id}"}
        for name, path in {**PATHS, **more}.items():
            page = visit(path.format(**ids))
            assert page.title() != "owned"
            if name not in LOOKED_AT[scheme]:
                continue
            page.screenshot(path=SHOTS / f"{name}-{scheme}.png")
            if found := violations(page, scheme):
                wrong[name] = found
        tasks["gate"].set()
    assert wrong == {}


def test_no_page_is_wider_than_a_phone(app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page]) -> None:
    ids = populate(app, tasks)
    for name, path in PATHS.items():
        page = visit(path.format(**ids))
        page.set_viewport_size({"width": 360, "height": 740})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360, f"{name} is {wide} px wide"
    expect(page.get_by_role("link", name="Queues")).to_be_hidden()
    page.locator("#burger summary").click()
    page.get_by_role("link", name="Queues").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")


def test_the_theme_is_switched_and_kept(visit: Callable[[str], Page], context: BrowserContext) -> None:
    page = visit("/")
    page.emulate_media(color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Switch between dark and light").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


def test_times_are_shown_in_the_time_zone_of_the_browser(
    app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page]
) -> None:
    job = tasks["add"].enqueue(1, 2)
    page = visit(f"/jobs/{job.id}")
    title = page.locator("#job-history time").first.get_attribute("title")
    assert title is not None
    assert "GMT+1" in title or "GMT+2" in title  # Vienna


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_login_form_is_centered(page: Page, app: Headrace, width: int, height: int) -> None:
    with serve(app, auth=["ann:s3cret-s3cret"]) as site:
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{site.url}/login")
        box = page.locator("main").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] / 2 == pytest.approx(width / 2, abs=2)
        assert box["y"] + box["height"] / 2 == pytest.approx(height / 2, abs=2)

"""Lists on a phone: what an operator looks for is in view, without scrolling sideways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from headrace import Headrace
from tests.support.site import serve
from tests.surfaces.web.pages.stock import stock

pytestmark = pytest.mark.slow

LISTS = ("/", "/queues", "/tasks", "/jobs", "/dead", "/flows", "/schedules", "/alerts", "/alerts/rules", "/lifecycle")


@pytest.fixture
def phone(app: Headrace, tasks: dict[str, Any], page: Page) -> Page:
    stock(app, tasks)
    app.queue("sums").pause()
    tasks["add"].enqueue(1, 2)
    page.set_viewport_size({"width": 390, "height": 844})
    return page


def is_in_view(found: Locator) -> bool:
    """The whole width is inside the screen, and nothing cuts the text."""
    box = found.bounding_box()
    fits = found.evaluate("node => node.scrollWidth <= node.clientWidth || getComputedStyle(node).display === 'inline'")
    return box is not None and bool(fits) and box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_no_list_scrolls_sideways(phone: Page, visit: Callable[[str], Page]) -> None:
    for path in LISTS:
        visit(path)
        hidden = phone.locator(".scroll:has(.rows)").evaluate_all(
            "all => all.map(each => each.scrollWidth - each.clientWidth)"
        )
        assert not any(hidden), f"{path} hides {hidden} px"


def test_a_queue_shows_its_pause_its_failures_and_its_button(phone: Page, visit: Callable[[str], Page]) -> None:
    visit("/queues")
    row = phone.locator("#q-sums")
    assert is_in_view(row.get_by_text("paused", exact=True))
    assert is_in_view(row.get_by_role("button", name="Resume"))
    assert is_in_view(phone.locator("#q-orders [data-label=failed]"))


def test_a_task_shows_its_last_failure_and_its_button(phone: Page, visit: Callable[[str], Page]) -> None:
    visit("/tasks")
    row = phone.locator("#t-refuse")
    assert is_in_view(row.locator("[data-label='last failure']"))
    assert is_in_view(row.get_by_role("button", name="Pause"))


@pytest.mark.parametrize("path", ["/jobs?state=failed", "/dead"])
def test_a_failure_shows_its_error_its_arguments_and_its_age(
    phone: Page, visit: Callable[[str], Page], path: str
) -> None:
    visit(path)
    row = phone.locator("table tr", has=phone.locator(".arguments")).first
    assert is_in_view(row.get_by_text("has no address"))
    assert is_in_view(row.locator(".arguments"))
    assert is_in_view(row.locator("time").last)


def test_the_label_of_the_environment_is_shown_whole(app: Headrace, page: Page) -> None:
    with Headrace(app.settings.url, web_label="production") as labeled, serve(labeled) as site:
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            page.goto(site.url)
            cut = page.locator("#label").evaluate("node => node.scrollWidth - node.clientWidth")
            assert cut == 0, f"{cut} px are hidden at {width} px"


def test_the_text_of_a_node_ends_inside_its_box(app: Headrace, page: Page, tasks: dict[str, Any]) -> None:
    flow = app.flow("wide")
    flow.add(tasks["hold"].bind("WWWWWWWWWWWWWWWWWWWWWWWWWWWW"), name="WWWWWWWWWWWWWWWWWWWWWWWWWWW")
    run = flow.enqueue()
    with serve(app) as site:
        page.goto(f"{site.url}/flows/{run.id}")
        box = page.locator(".node rect").first.bounding_box()
        inner = page.locator(".node svg").first
        frame = inner.evaluate("node => node.getAttribute('width')")
        assert box is not None
        assert float(frame) < box["width"] + 1
        assert inner.evaluate("node => getComputedStyle(node).overflow") == "hidden"

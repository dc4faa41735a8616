"""The keyboard alone is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from headrace import Headrace

pytestmark = pytest.mark.slow


def heading(page: Page) -> Any:
    return expect(page.get_by_role("heading", level=1))


def test_keys_select_and_open_rows(app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page]) -> None:
    first, second = tasks["add"].enqueue(1, 1), tasks["add"].enqueue(2, 2)
    page = visit("/jobs")
    page.keyboard.press("j")
    expect(page.locator("tr.current")).to_contain_text(second.id[-8:])
    page.keyboard.press("j")
    page.keyboard.press("j")  # the last one stays
    expect(page.locator("tr.current")).to_contain_text(first.id[-8:])
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(page.get_by_label(f"Pick {second.id}")).to_be_checked()
    page.keyboard.press("Enter")
    expect(page.locator("#job-id")).to_have_text(second.id)


def test_views_and_the_search_have_keys(app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page]) -> None:
    page = visit("/")
    for key, title in (("q", "Queues"), ("w", "Workers"), ("j", "Jobs"), ("o", "Overview")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        heading(page).to_have_text(title)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("j")
    heading(page).to_have_text("Jobs")
    page.keyboard.press("/")
    page.keyboard.type("nothing of the kind")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No job matches")).to_be_visible()
    assert "text=nothing" in page.url


def test_the_palette_finds_pages_and_runs_actions(
    app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page]
) -> None:
    job = tasks["add"].enqueue(1, 1)
    page = visit("/")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill(job.id)
    expect(page.get_by_role("option").first).to_contain_text("add")
    page.keyboard.press("Enter")
    expect(page.locator("#job-id")).to_have_text(job.id)

    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("pause queue sums")
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_contain_text("paused")
    assert app.queue("sums").paused

    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("zzzz")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    expect(page.get_by_role("combobox")).to_be_hidden()

"""Pages update themselves and keep focus, selection and typed text."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from headrace import Headrace, current_job
from tests.support.site import Site
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

REMEMBER = "window.rememberedByThisVeryDocument = true"
REMEMBERED = "window.rememberedByThisVeryDocument === true"


def test_a_count_changes_without_a_reload(app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page]) -> None:
    page = visit("/")
    page.evaluate(REMEMBER)
    expect(page.locator("#tile-pending .tile-value")).to_have_text("0")
    tasks["add"].enqueue(1, 2)
    expect(page.locator("#tile-pending .tile-value")).to_have_text("1")
    assert page.evaluate(REMEMBERED)


def test_a_job_is_followed_to_its_end(app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page]) -> None:
    job = tasks["hold"].enqueue("done")
    page = visit(f"/jobs/{job.id}")
    page.evaluate(REMEMBER)
    expect(page.locator("#why")).to_contain_text("No worker is alive")
    with app.worker(concurrency=1):
        expect(page.locator("#state")).to_contain_text("running")
        expect(page.get_by_role("progressbar", name="Progress")).to_have_attribute("value", "0.25")
        expect(page.locator("#log")).to_contain_text("has begun")
        tasks["gate"].set()
        expect(page.locator("#state")).to_contain_text("completed")
        expect(page.get_by_role("region", name="Result")).to_contain_text('"done"')
    assert page.evaluate(REMEMBERED)


def test_a_stream_is_followed_while_its_end_is_in_sight(app: Headrace, visit: Callable[[str], Page]) -> None:
    gate = threading.Event()

    @app.task(name="tell")
    def tell() -> None:
        for number in range(80):
            current_job().stream(f"line {number} <b>\n")
        gate.wait(PATIENCE)
        current_job().stream("the last line")

    job = tell.enqueue()
    page = visit(f"/jobs/{job.id}")
    with app.worker(concurrency=1):
        stream = page.locator("#stream")
        expect(stream).to_contain_text("line 79 <b>")
        gate.set()
        expect(stream).to_contain_text("the last line")
    eventually(lambda: stream.evaluate("each => each.scrollHeight - each.scrollTop - each.clientHeight < 2"))


def test_a_section_that_appears_takes_no_typed_text(
    app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page]
) -> None:
    """The charts and the tasks of a queue appear with its first job, above the form of its rules."""
    page = visit("/queues/orders")
    expect(page.locator("#queue-tasks")).to_have_count(0)
    page.get_by_label("Weight", exact=True).fill("7")
    page.get_by_label("Rate", exact=True).press_sequentially("12/s")
    region = page.get_by_role("region", name="Tasks")

    def has_appeared() -> bool:
        tasks["refuse"].enqueue(1).wait(PATIENCE)  # a page is updated by changes, and curves are a few seconds old
        return region.count() == 1

    with app.worker(concurrency=1):
        eventually(has_appeared)
    expect(page.get_by_label("Weight", exact=True)).to_have_value("7")
    expect(page.get_by_label("Rate", exact=True)).to_have_value("12/s")
    expect(page.get_by_label("Rate", exact=True)).to_be_focused()


def test_an_update_keeps_focus_selection_and_typed_text(
    app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page]
) -> None:
    """Typed, picked, selected and unfolded content survives an update of the page."""
    job = tasks["refuse"].enqueue(1)
    with app.worker(concurrency=1):
        job.wait(PATIENCE)
    page = visit("/queues/orders")
    page.get_by_label("Weight", exact=True).fill("7")
    page.get_by_label("Concurrency", exact=True).press_sequentially("12")
    tasks["refuse"].enqueue(2)
    expect(page.locator("#next")).to_contain_text("refuse")
    expect(page.get_by_label("Weight", exact=True)).to_have_value("7")
    expect(page.get_by_label("Concurrency", exact=True)).to_have_value("12")
    expect(page.get_by_label("Concurrency", exact=True)).to_be_focused()

    page = visit(f"/jobs/{job.id}")
    fold = page.locator("details.fold").first
    fold.locator("summary").click()
    expect(fold).not_to_have_attribute("open", "")
    job.retry()
    expect(page.locator("#state")).to_contain_text("pending")
    expect(fold).not_to_have_attribute("open", "")

    page = visit("/jobs")
    page.get_by_label(f"Pick {job.id}").check()
    added = tasks["add"].enqueue(1, 1)
    expect(page.locator("#jobs")).to_contain_text(added.id[-8:])
    expect(page.get_by_label(f"Pick {job.id}")).to_be_checked()


# Reload the page as when it becomes visible again, and wait until it has applied the response.
LOOK_AGAIN = """new Promise((done) => {
    document.addEventListener("headrace:updated", done, { once: true });
    document.dispatchEvent(new Event("visibilitychange"));
})"""


@pytest.mark.parametrize("path", ["/new-schedule", "/alerts/new-rule", "/alerts/new-channel", "/enqueue"])
def test_an_update_keeps_a_partly_filled_form(visit: Callable[[str], Page], path: str) -> None:
    page = visit(path)
    fields = page.get_by_role("main").locator("input:visible, textarea:visible")
    page.evaluate(LOOK_AGAIN)
    for place in range(fields.count()):
        if fields.nth(place).get_attribute("type") in (None, "text"):
            fields.nth(place).fill(f"text {place}")
    texts = [fields.nth(place).input_value() for place in range(fields.count())]
    page.evaluate(LOOK_AGAIN)
    assert [fields.nth(place).input_value() for place in range(fields.count())] == texts
    assert sum(text.startswith("text") for text in texts) > 2


@pytest.mark.parametrize("is_there_first", [False, True])
def test_a_log_scrolls_along_until_the_user_scrolls_up(
    app: Headrace, tasks: dict[str, Any], visit: Callable[[str], Page], is_there_first: bool
) -> None:
    job = tasks["chat"].enqueue(60)
    at_end = "(log) => log.scrollHeight - log.scrollTop - log.clientHeight < 24"
    page = visit(f"/jobs/{job.id}")
    with app.worker(concurrency=1):
        if is_there_first:
            eventually(lambda: len(job.logs()) >= 60, "the log")
            page = visit(f"/jobs/{job.id}")
        expect(page.locator("#log")).to_contain_text("line 59")
        eventually(lambda: page.locator("#log").evaluate(at_end), "the log is followed")
        page.locator("#log").evaluate("(log) => log.scrollTo(0, 0)")
        tasks["gate"].set()
        expect(page.locator("#log")).to_contain_text("the last line")
        assert not page.locator("#log").evaluate(at_end)


def test_a_lost_connection_is_shown(site: Site, visit: Callable[[str], Page]) -> None:
    page = visit("/")
    expect(page.locator("#link")).not_to_have_attribute("data-link", "off")
    site.stop()
    expect(page.locator("#link")).to_have_attribute("data-link", "lost")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

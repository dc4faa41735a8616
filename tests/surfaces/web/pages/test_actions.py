"""Actions in the dashboard: results, confirmations and messages; viewers are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from headrace import Headrace, JobNotFound
from tests.support.site import serve
from tests.support.waiting import PATIENCE
from tests.surfaces.web.pages.tasks import populate

pytestmark = pytest.mark.slow

Visit = Callable[[str], Page]


def press(page: Page, name: str) -> None:
    page.get_by_role("main").get_by_role("button", name=name, exact=True).click()


def answer(page: Page, name: str) -> None:
    page.locator("#confirm").get_by_role("button", name=name).click()


def expect_toast(page: Page, text: str) -> None:
    expect(page.locator(".toast").last).to_contain_text(text)


def test_a_queue_is_paused_configured_and_cleared(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    queue = app.queue("sums")
    tasks["add"].enqueue(1, 2)
    page = visit("/queues/sums")
    press(page, "Pause")
    expect_toast(page, "is paused")
    assert queue.paused
    press(page, "Resume")
    expect_toast(page, "open again")
    assert not queue.paused

    page.get_by_label("Rate", exact=True).fill("10/s")
    page.get_by_label("Concurrency", exact=True).fill("3")
    press(page, "Save the rules")
    expect_toast(page, "apply to every worker")
    assert queue.rules.concurrency == 3
    assert queue.rules.rate is not None
    page.get_by_label("Concurrency", exact=True).fill("many")
    press(page, "Save the rules")
    expect_toast(page, "'many' is not a whole number")
    assert queue.rules.concurrency == 3

    press(page, "Clear")
    answer(page, "Keep as it is")
    assert queue.length() == 1
    press(page, "Clear")
    answer(page, "Delete 1 job")
    expect_toast(page, "1 job was deleted")
    assert queue.length() == 0


def test_a_job_is_retried_changed_promoted_cancelled_and_deleted(
    app: Headrace, tasks: dict[str, Any], visit: Visit
) -> None:
    ids = populate(app, tasks)
    page = visit(f"/jobs/{ids['failed']}")
    press(page, "Retry")
    expect_toast(page, "is queued again")
    assert app.jobs.get(ids["failed"]).state == "pending"
    expect(page.locator("#state")).to_contain_text("pending")

    page = visit(f"/jobs/{ids['scheduled']}")
    page.get_by_label("Priority").fill("50")
    press(page, "Change")
    expect_toast(page, "priority 50")
    assert app.jobs.get(ids["scheduled"]).priority == 50
    press(page, "Run now")
    expect_toast(page, "is pending now")
    assert app.jobs.get(ids["scheduled"]).state == "pending"
    press(page, "Cancel")
    expect_toast(page, "is cancelled")
    assert app.jobs.get(ids["scheduled"]).state == "cancelled"
    press(page, "Delete")
    answer(page, "Delete the job")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    expect_toast(page, "was deleted")
    with pytest.raises(JobNotFound):
        app.jobs.get(ids["scheduled"])


def test_a_running_job_is_cancelled_only_after_a_confirmation(
    app: Headrace, tasks: dict[str, Any], visit: Visit
) -> None:
    job = tasks["hold"].enqueue()
    with app.worker(concurrency=1):
        while job.refresh().state != "running":
            pass
        page = visit(f"/jobs/{job.id}")
        press(page, "Cancel")
        answer(page, "Keep as it is")
        assert job.refresh().state == "running"
        press(page, "Cancel")
        answer(page, "Cancel the job")
        expect_toast(page, "is cancelled")
        assert job.refresh().state == "cancelled"
        tasks["gate"].set()


def test_bulk_actions_apply_to_a_filter_and_to_picked_jobs(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    jobs = [tasks["refuse"].enqueue(n) for n in range(4)]
    with app.worker(concurrency=2):
        for job in jobs:
            job.wait(PATIENCE)
    other = tasks["add"].enqueue(1, 1)
    page = visit("/jobs?state=failed&queue=orders")
    press(page, "Retry")
    expect(page.locator("#confirm")).to_contain_text("queue orders")
    answer(page, "Retry 4 jobs")
    expect_toast(page, "4 jobs were started anew")
    assert app.jobs.count(state="pending", queue="orders") == 4

    page = visit("/jobs?queue=orders")
    for job in jobs[:2]:
        page.get_by_label(f"Pick {job.id}").check()
    expect(page.locator("#picked-count")).to_have_text("2 jobs picked")
    press(page, "Cancel")
    answer(page, "Cancel 2 jobs")
    expect_toast(page, "2 jobs were cancelled")
    assert {job.id for job in app.jobs.find(state="cancelled")} == {job.id for job in jobs[:2]}
    assert other.refresh().state == "pending"

    page = visit("/jobs")
    press(page, "Delete")
    expect_toast(page, "filter the list first")
    assert app.jobs.count() == 5


def test_a_job_is_enqueued_by_hand(app: Headrace, tasks: dict[str, Any], visit: Visit) -> None:
    page = visit("/enqueue")
    page.get_by_label("Task", exact=True).fill("add")
    page.locator("[name=args]").fill("[1, ")
    press(page, "Enqueue")
    expect_toast(page, "not valid JSON")
    page.locator("[name=args]").fill('["x", 2]')
    press(page, "Enqueue")
    expect_toast(page, "expected int")
    page.locator("[name=args]").fill("[40, 2]")
    page.get_by_label("Priority").fill("9")
    press(page, "Enqueue")
    expect(page.get_by_role("heading", level=1)).to_have_text("add")
    (job,) = app.jobs.find()
    assert (job.args, job.priority) == ((40, 2), 9)


def test_a_job_is_edited_and_requeued_without_showing_its_secrets(
    app: Headrace, tasks: dict[str, Any], visit: Visit
) -> None:
    job = tasks["sign"].enqueue("ann", password="hunter2")
    page = visit(f"/jobs/{job.id}")
    assert "hunter2" not in page.content()
    page.get_by_role("link", name="Edit and requeue").click()
    named = page.locator("[name=kwargs]")
    expect(named).to_have_value('{\n  "password": "***"\n}')
    page.locator("[name=args]").fill('["bob"]')
    press(page, "Enqueue")
    expect(page.locator("#job-id")).not_to_have_text(job.id)
    (again,) = [found for found in app.jobs.find() if found.id != job.id]
    assert (again.args, again.kwargs) == (("bob",), {"password": "hunter2"})


def test_a_worker_is_paused_and_stopped(app: Headrace, visit: Visit) -> None:
    with app.worker(concurrency=1) as worker:
        page = visit(f"/workers/{worker.id}")
        press(page, "Pause")
        expect_toast(page, "starts no more jobs")
        expect(page.get_by_role("main")).to_contain_text("paused")
        press(page, "Resume")
        expect_toast(page, "starts jobs again")
        press(page, "Stop")
        answer(page, "Stop the worker")
        expect_toast(page, "finishes its running jobs")
        assert worker.stopped.wait(PATIENCE)
        expect(page.get_by_role("main")).to_contain_text("ended")


def test_it_works_without_scripts(app: Headrace, tasks: dict[str, Any], browser: Browser) -> None:
    tasks["add"].enqueue(1, 2)
    with serve(app) as site:
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(f"{site.url}/queues/sums")
        press(page, "Pause")
        expect_toast(page, "is paused")
        assert page.url == f"{site.url}/queues/sums"
        assert app.queue("sums").paused
        page.reload()
        expect(page.locator(".toast")).to_have_count(0)
        press(page, "Clear")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Delete 1 job of queue sums")
        assert app.queue("sums").length() == 1
        press(page, "Delete 1 job")
        expect_toast(page, "1 job was deleted")
        assert app.queue("sums").length() == 0
        context.close()


def test_a_viewer_sees_no_buttons_and_an_admin_signs_in(
    app: Headrace, tasks: dict[str, Any], page: Page, site: Any
) -> None:
    tasks["add"].enqueue(1, 2)
    with serve(app, auth=("viewer=eve:look", "ann:rule")) as closed:
        page.goto(f"{closed.url}/queues/sums")
        page.get_by_label("Name").fill("eve")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("wrong name or password")
        page.get_by_label("Password").fill("look")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("sums")
        expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
        ask = "fetch('/queues/sums/pause', {method: 'POST', headers: {Accept: 'application/json'}})"
        refused = page.evaluate(f"{ask}.then((answer) => answer.status)")
        assert refused == 403
        assert not app.queue("sums").paused
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Name").fill("ann")
        page.get_by_label("Password").fill("rule")
        page.get_by_role("button", name="Sign in").click()
        page.goto(f"{closed.url}/queues/sums")
        press(page, "Pause")
        expect_toast(page, "is paused")

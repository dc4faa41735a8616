"""A new user of the dashboard finds out why a job does not run, in at most three clicks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from headrace import Headrace, Job
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.slow

QUEUE = "sums"
Tasks = dict[str, Any]


def paused(app: Headrace, tasks: Tasks) -> Job[Any]:
    app.queue(QUEUE).pause()
    return tasks["add"].enqueue(1, 2)


def unserved(app: Headrace, tasks: Tasks) -> Job[Any]:
    return tasks["add"].enqueue(1, 2)


def unknown(app: Headrace, tasks: Tasks) -> Job[Any]:
    return app.task_by_name("nobody.knows").using(queue=QUEUE).enqueue()


def held_back(app: Headrace, tasks: Tasks) -> Job[Any]:
    app.queue(QUEUE).configure(rate="1/h")
    first, second = tasks["add"].enqueue(1, 2), tasks["add"].enqueue(3, 4)
    with app.worker(queues=[QUEUE]):
        first.wait(PATIENCE)
    return second


def waiting(app: Headrace, tasks: Tasks) -> Job[Any]:
    parent = tasks["hold"].using(delay=3600).enqueue()
    return tasks["add"].using(after=[parent]).enqueue(1, 2)


def later(app: Headrace, tasks: Tasks) -> Job[Any]:
    return tasks["add"].using(delay=3600).enqueue(1, 2)


def unequipped(app: Headrace, tasks: Tasks) -> Job[Any]:
    return tasks["add"].using(needs=["gpu"]).enqueue(1, 2)


# A cause, the state of the job, and the text of the dashboard.
STUCK = [
    (paused, "pending", "is paused"),
    (unserved, "pending", "No live worker serves"),
    (unknown, "pending", "deploy one that registers it"),
    (held_back, "pending", "starts 1/h"),
    (waiting, "waiting", "It waits for job"),
    (later, "scheduled", "It is scheduled to run in"),
    (unequipped, "pending", "has gpu, which it needs"),
]


@pytest.mark.parametrize(("stick", "state", "expected"), STUCK, ids=[stick.__name__ for stick, *_ in STUCK])
def test_why_a_job_is_stuck_is_three_clicks_from_the_overview(
    app: Headrace,
    tasks: Tasks,
    visit: Callable[[str], Page],
    stick: Callable[[Headrace, Tasks], Job[Any]],
    state: str,
    expected: str,
) -> None:
    job = stick(app, tasks)
    served = ["slow"] if stick is unserved else [QUEUE]
    with app.worker(queues=served):
        page = visit("/")
        page.locator("#overview-queues").get_by_role("link", name=QUEUE, exact=True).click()
        page.get_by_role("main").locator(".legend").get_by_role("link", name=state).click()
        page.get_by_role("main").locator(f'a[href$="{job.id}"]').click()
        expect(page.locator("#why")).to_contain_text(expected)
        assert page.url.endswith(job.id)

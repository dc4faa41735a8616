"""The page of a job that does not run has a button, a link or a command for what can be done about it."""

from __future__ import annotations

import re

from headrace import Headrace, PermanentError
from headrace.testing import drain
from tests.support.waiting import PATIENCE
from tests.surfaces.web.actions import app, client, clock, do
from tests.surfaces.web.client import Client

__all__ = ["app", "client", "clock"]  # the fixtures


def notice_of(client: Client, job_id: str) -> str:
    found = re.search(r'<div class="notice[^>]*id="why">.*?</div>', client.get(f"/jobs/{job_id}").text, re.DOTALL)
    assert found is not None
    return found[0]


def test_a_paused_queue_and_a_paused_task_are_resumed_from_the_job(app: Headrace, client: Client) -> None:
    add = app.task(name="add", queue="sums")(lambda: None)
    job = add.enqueue()
    app.queue("sums").pause()
    shown = notice_of(client, job.id)
    assert 'action="/queues/sums/resume"' in shown
    assert "headrace queues resume" not in shown
    do(client, "/queues/sums/resume")
    app.pause_task("add")
    with app.worker():
        shown = notice_of(client, job.id)
        assert 'action="/tasks/add/resume"' in shown
        do(client, "/tasks/add/resume")
        job.wait(PATIENCE)


def test_a_viewer_reads_the_command_and_has_no_button(app: Headrace) -> None:
    job = app.task_by_name("add").enqueue()
    app.queue("default").pause()
    shown = notice_of(Client(app.asgi(read_only=True)), job.id)
    assert "<code>headrace queues resume default</code>" in shown
    assert "<form" not in shown


def test_a_missing_worker_is_a_command_to_copy(app: Headrace, client: Client) -> None:
    job = app.task_by_name("add").using(queue="sums").enqueue()
    shown = notice_of(client, job.id)
    assert 'data-copy="headrace worker"' in shown
    assert "<code>headrace worker</code>" in shown


def test_a_limit_is_a_link_to_its_rules(app: Headrace, client: Client) -> None:
    add = app.task(name="add")(lambda: None)
    app.queue("default").configure(rate="1/h")
    jobs = [add.enqueue() for _ in range(3)]
    with app.worker():
        jobs[0].wait(PATIENCE)
        assert 'href="/queues/default#queue-rules"' in notice_of(client, jobs[2].id)
    assert 'id="queue-rules"' in client.get("/queues/default").text


def test_a_failed_job_links_to_its_dead_letter(app: Headrace, client: Client) -> None:
    @app.task(name="refuse")
    def refuse() -> None:
        raise PermanentError("no address")

    job = refuse.enqueue()
    drain(app)
    [letter] = app.dead.list()
    assert f'href="/dead/{letter.id}"' in notice_of(client, job.id)
    assert "headrace dead show" not in notice_of(client, job.id)
    assert f"is pending; show it with `headrace dead show {letter.id}`." in job.why()

"""The warnings of the overview: few lines, each fact once, most severe first."""

from __future__ import annotations

import re

import pytest

from headrace import Headrace, PermanentError
from headrace.testing import VirtualClock, drain
from tests.surfaces.web.actions import app, client, clock
from tests.surfaces.web.client import Client

__all__ = ["app", "client", "clock"]  # the fixtures


def lines_of(client: Client) -> tuple[list[str], list[str]]:
    """The lines that are visible, and those behind "more"."""
    [health] = re.findall(r'<section class="health.*?</section>', client.get("/").text, re.DOTALL)
    shown, _, more = health.partition("<details")

    def texts(part: str) -> list[str]:
        return [" ".join(re.sub(r"<[^>]+>", "", one).split()) for one in re.findall(r"<li>.*?</li>", part, re.DOTALL)]

    return texts(shown), texts(more)


def test_a_queue_without_worker_is_told_once_also_when_silenced(
    app: Headrace, client: Client, clock: VirtualClock
) -> None:
    app.task_by_name("render").using(queue="gpu").enqueue()
    app.alerts.evaluate()
    clock.advance(61)
    app.alerts.evaluate()
    shown, more = lines_of(client)
    assert shown == ["no_worker no live worker serves queue gpu, where 1 job is pending"]
    assert more == []
    app.alerts.silence("no_worker", for_=3600)
    page = Client(app.asgi()).get("/").text
    assert "gpu" not in page[page.index('id="health"') : page.index('class="tiles"')]


def test_at_most_three_lines_are_shown_and_those_of_one_rule_are_one(app: Headrace, client: Client) -> None:
    for number in range(4):
        app.alerts.rules.create(f"own-{number}", when="depth >= 0", summary=f"reason {number}")
    app.alerts.rules.create("by-queue", when="depth >= 0", per=["queue"], severity="critical")
    for number in range(5):
        app.task_by_name("add").using(queue=f"q{number}").enqueue()
        app.queue(f"q{number}").pause()
    app.alerts.evaluate()
    shown, more = lines_of(client)
    assert len(shown) == 3
    assert shown[0].startswith("by-queue queue q")
    assert shown[0].endswith(", and 4 more like this")
    assert shown[1].startswith("No worker is alive, and 5 jobs are pending.")
    assert shown[2] == "own-0 reason 0 (depth is 5)"
    assert len(more) == 3 + 5
    assert f"<summary>{len(more)} more</summary>" in client.get("/").text


def test_many_dead_letters_of_a_task_are_one_critical_line(app: Headrace, client: Client) -> None:
    @app.task(name="mail", retry=0)
    def mail() -> None:
        raise PermanentError("no address")

    mail.enqueue()
    drain(app)
    app.alerts.evaluate()
    assert lines_of(client)[0] == ["dead_letter mail: 1 job failed for good in 5 minutes (permanent error)"]
    assert 'class="health warn"' in client.get("/").text
    for _ in range(20):
        mail.enqueue()
    drain(app)
    app.alerts.evaluate()
    page = Client(app.asgi())
    told = [line for part in lines_of(page) for line in part if line.startswith("dead_letter")]
    assert told == ["dead_letter_burst mail: 21 jobs failed for good in 5 minutes"]


def test_a_growing_queue_is_told_in_words(
    app: Headrace, client: Client, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.pages.page_cache._TIMEOUT", 60.0)  # metrics come before the response
    app.task(name="add")(lambda: None)
    with app.worker():
        app.queue("mail").configure(rate="1/h")
        app.enqueue_many([app.task_by_name("add").using(queue="mail").bind() for _ in range(120)])
        app.metrics.snapshot()
        clock.advance(10)
        app.metrics.snapshot()
        page = Client(app.asgi()).get("/queues/mail").text
        overview = lines_of(Client(app.asgi()))[0]
    assert re.search(r"grows by \d+ a minute", page)
    assert [line for line in overview if re.match(r"Queue mail grows by \d+ a minute; 1\d\d jobs are pending\.", line)]

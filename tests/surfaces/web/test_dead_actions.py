"""Actions on dead letters in the dashboard: confirmations, and the effect on dead letters and jobs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from headrace import Headrace, State, current_job
from headrace.core.codec.redaction import MASK
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.testing import VirtualClock, drain
from headrace.web.pages import background
from tests.support.waiting import PATIENCE, eventually
from tests.surfaces.web.actions import app, ask, client, clock, do, refused
from tests.surfaces.web.client import Client
from tests.surfaces.web.test_forms import WRITES, away

__all__ = ["app", "client", "clock"]  # the fixtures
DAY = 86_400.0
Dying = Callable[..., str]


@pytest.fixture
def died(app: Headrace) -> Dying:
    """Lets a job fail for good; returns the id of its dead letter."""

    @app.task(name="pay", retry=0, redact=("card",))
    def pay(order: int, card: str = "4111", *, fine: bool = False) -> str:
        if not fine:
            raise ConnectionError("no bank")
        return f"{order} by {card}"

    def die(*args: Any, queue: str = "orders", **kwargs: Any) -> str:
        job = pay.using(queue=queue).enqueue(*(args or (1,)), **kwargs)
        drain(app)
        return app.dead.get(job.id).id

    return die


def used_up(app: Headrace, clock: VirtualClock, expected: str) -> str:
    """Requeue a job until the limit; return the id of its last dead letter."""
    job = app.dead.get(expected).job_id
    for _ in range(3):
        app.dead.requeue(job)
        clock.advance(1)  # dead letters of one millisecond have no order
        drain(app)
    return app.dead.get(job).id


def status_of(app: Headrace, *dead_letters: str) -> list[str]:
    return [app.dead.get(dead_letter).status for dead_letter in dead_letters]


def state_of(app: Headrace, expected: str) -> State:
    return app.jobs.get(app.dead.get(expected).job_id).state


# -- requeuing many


def test_picked_dead_letters_are_requeued_after_a_confirmation(app: Headrace, client: Client, died: Dying) -> None:
    first, second, other = died(1), died(2), died(3)
    question = ask(client, "/dead/requeue", id=[first, second])
    assert question == {"ask": "Requeue 2 jobs?", "detail": "Selected: picked.", "label": "Requeue 2 jobs"}
    assert status_of(app, first, second) == ["pending", "pending"], "the question changes nothing"
    assert do(client, "/dead/requeue", id=[first, second], note="bank is back") == "2 jobs requeued."
    assert status_of(app, first, second, other) == ["requeued", "requeued", "pending"]
    assert state_of(app, first) is State.PENDING
    closed = app.dead.get(first)
    assert (closed.resolved_by, [note.text for note in closed.notes]) == ("local", ["bank is back"])
    assert app.audit.list()[0].target == f"{first}, {second}"


def test_picked_dead_letters_that_were_handled_already_are_skipped(app: Headrace, client: Client, died: Dying) -> None:
    first, second = died(1), died(2)
    app.dead.resolve(second, "cancelled", by="ann")
    message = do(client, "/dead/requeue", id=[first, second])
    assert message == "1 job requeued; 1 had been handled already."
    assert status_of(app, first, second) == ["requeued", "cancelled"]
    assert state_of(app, second) is State.FAILED


def test_only_dead_letters_of_the_filter_are_requeued(app: Headrace, client: Client, died: Dying) -> None:
    orders, bills = [died(number) for number in range(2)], died(queue="bills")
    question = ask(client, "/dead/requeue", query="queue=orders")
    assert (question["ask"], question["detail"]) == ("Requeue 2 jobs?", "Selected: queue orders.")
    assert do(client, "/dead/requeue", query="queue=orders") == "2 jobs requeued."
    assert status_of(app, *orders, bills) == ["requeued", "requeued", "pending"]
    assert app.dead.get(orders[0]).resolved_by == "local"


def test_a_rate_spreads_the_starts_of_the_jobs(app: Headrace, client: Client, died: Dying, clock: VirtualClock) -> None:
    dead_letters = [died(number) for number in range(3)]
    assert ask(client, "/dead/requeue", query="task=pay", rate="1/min")["detail"].endswith(" They start at 1/min.")
    do(client, "/dead/requeue", query="task=pay", rate="1/min")
    starts = sorted(app.jobs.get(app.dead.get(dead_letter).job_id).run_at for dead_letter in dead_letters)
    assert [(start - clock.moment).total_seconds() for start in starts] == [0, 60, 120]


@pytest.mark.parametrize("confirmed", ["", "yes"])
def test_an_invalid_rate_is_refused_and_nothing_is_requeued(
    app: Headrace, client: Client, died: Dying, confirmed: str
) -> None:
    dead_letter = died()
    answer = client.post("/dead/requeue", data={"query": "task=pay", "rate": "fast", "confirmed": confirmed})
    assert (answer.status_code, "fast" in answer.json()["text"]) == (400, True)
    assert status_of(app, dead_letter) == ["pending"]


def test_the_question_counts_jobs_that_were_requeued_too_often(
    app: Headrace, client: Client, died: Dying, clock: VirtualClock
) -> None:
    often, fresh = used_up(app, clock, died(1)), died(2)
    detail = ask(client, "/dead/requeue", query="queue=orders")["detail"]
    assert "Permanently failed, because requeued too often: 1 dead letter." in detail
    message = do(client, "/dead/requeue", query="queue=orders")
    assert message == "1 job requeued. Permanently failed, because requeued too often: 1 dead letter."
    assert status_of(app, often, fresh) == ["permanently_failed", "requeued"]
    assert state_of(app, often) is State.FAILED


def test_the_result_counts_picked_jobs_that_failed_permanently(
    app: Headrace, client: Client, died: Dying, clock: VirtualClock
) -> None:
    often = used_up(app, clock, died(1))
    message = do(client, "/dead/requeue", id=[often])
    assert message == "0 jobs requeued. Permanently failed, because requeued too often: 1 dead letter."


def test_picked_dead_letters_have_no_rate(app: Headrace, client: Client, died: Dying) -> None:
    dead_letter = died()
    assert "A rate applies to all that match" in refused(client, "/dead/requeue", id=[dead_letter], rate="1/min")
    assert status_of(app, dead_letter) == ["pending"]


def test_an_unavailable_store_is_not_reported_as_success(
    client: Client, died: Dying, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letter = died()
    monkeypatch.setattr("headrace.app.dead_letters.dead.Dead.requeue", away)
    assert "no route to the server" in refused(client, "/dead/requeue", 503, id=[dead_letter])


@pytest.mark.parametrize("act", ["requeue", "resolve"])
def test_there_is_no_question_without_pending_dead_letters(client: Client, died: Dying, act: str) -> None:
    died()
    answer = client.post(f"/dead/{act}", data={"query": "queue=bills"})
    assert (answer.status_code, answer.json()["text"]) == (400, "None of these dead letters is pending.")


@pytest.mark.parametrize(("act", "expected"), [("requeue", "requeued"), ("resolve", "resolved")])
def test_a_slow_bulk_action_continues_in_the_background(
    app: Headrace, client: Client, died: Dying, monkeypatch: pytest.MonkeyPatch, act: str, expected: str
) -> None:
    dead_letter, gate, find = died(), threading.Event(), type(app.engine.dead_letters).find

    def slow(store: Any, which: DeadLetterFilter, *args: Any) -> Any:
        if which.queue == "orders":
            gate.wait(PATIENCE)
        return find(store, which, *args)

    monkeypatch.setattr(background, "_TIMEOUT", 0.0)
    monkeypatch.setattr(type(app.engine.dead_letters), "find", slow)
    message = do(client, f"/dead/{act}", query="queue=orders")
    assert message == f"They are being {expected} in the background."
    assert status_of(app, dead_letter) == ["pending"]
    gate.set()
    eventually(lambda: status_of(app, dead_letter) != ["pending"], "the end of it")


# -- resolving many


def test_picked_dead_letters_are_resolved_with_the_given_status(app: Headrace, client: Client, died: Dying) -> None:
    first, second, closed = died(1), died(2), died(3)
    app.dead.resolve(closed, "cancelled", by="ann")
    question = ask(client, "/dead/resolve", id=[first], status="permanently_failed")
    assert question["ask"] == "Resolve 1 dead letter as permanently failed?"
    assert question["detail"] == "Selected: picked. Their jobs do not change."
    assert status_of(app, first) == ["pending"]
    message = do(client, "/dead/resolve", id=[first, closed], status="permanently_failed", note="refunded")
    assert message == "1 dead letter is resolved."
    assert status_of(app, first, second, closed) == ["permanently_failed", "pending", "cancelled"]
    assert [(note.text, note.by) for note in app.dead.get(first).notes] == [("refunded", "local")]
    assert state_of(app, first) is State.FAILED


def test_all_pages_of_a_filter_are_resolved(
    app: Headrace, client: Client, died: Dying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.pages.views.dead._BATCH_SIZE", 2)
    orders, bills = [died(number) for number in range(5)], died(queue="bills")
    question = ask(client, "/dead/resolve", query="queue=orders")
    assert question["ask"] == "Resolve 5 dead letters as manually resolved?"
    assert do(client, "/dead/resolve", query="queue=orders") == "5 dead letters are resolved."
    assert status_of(app, *orders) == ["manually_resolved"] * 5
    assert status_of(app, bills) == ["pending"]


def test_resolving_ends_while_others_resolve_the_same_dead_letters(
    app: Headrace, client: Client, died: Dying, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letter = died()
    monkeypatch.setattr(type(app.engine.dead_letters), "update", lambda *_: [])
    assert do(client, "/dead/resolve", query="queue=orders") == "0 dead letters are resolved."
    assert status_of(app, dead_letter) == ["pending"]


def test_an_invalid_resolution_is_refused(app: Headrace, client: Client, died: Dying) -> None:
    dead_letter = died()
    for status in ("odd", "requeued", "pending"):
        message = refused(client, "/dead/resolve", id=dead_letter, status=status)
        assert message == f"status: expected one of manually_resolved, permanently_failed, cancelled, got {status!r}"
    assert status_of(app, dead_letter) == ["pending"]


# -- purging


def test_only_dead_letters_resolved_a_month_ago_are_purged(
    app: Headrace, client: Client, died: Dying, clock: VirtualClock
) -> None:
    old, pending = died(1), died(2)
    app.dead.resolve(old, "cancelled")
    clock.advance(20 * DAY)
    recent = died(3)
    app.dead.resolve(recent, "cancelled")
    clock.advance(11 * DAY)
    question = ask(client, "/dead/purge")
    assert question["ask"] == "Remove 1 dead letter?"
    assert question["detail"] == "They were resolved more than 30 days ago."
    assert app.dead.count(status=None) == 3
    assert do(client, "/dead/purge") == "1 dead letter removed."
    assert {dead_letter.id for dead_letter in app.dead.list(status=None)} == {pending, recent}


# -- one dead letter


def test_a_dead_letter_is_requeued_unchanged(app: Headrace, client: Client, died: Dying) -> None:
    dead_letter = died(7, "4711", fine=False)
    shown = {"args": json.dumps([7, MASK]), "kwargs": '{"fine": false}'}
    message = do(client, f"/dead/{dead_letter}/requeue", note="again", **shown)
    job = app.jobs.get(app.dead.get(dead_letter).job_id)
    assert message == f"Job {job.id} is queued again (requeue 1 of 3)."
    assert (job.args, job.kwargs, job.state) == ((7, "4711"), {"fine": False}, State.PENDING)
    assert [note.text for note in app.dead.get(dead_letter).notes] == ["again"]


def test_a_dead_letter_is_requeued_with_other_arguments_and_its_secret(
    app: Headrace, client: Client, died: Dying
) -> None:
    dead_letter = died(7, "4711")
    page = client.get(f"/dead/{dead_letter}").text
    assert (MASK in page, "4711" in page) == (True, False)
    do(client, f"/dead/{dead_letter}/requeue", args=json.dumps([8, MASK]), kwargs='{"fine": true}')
    drain(app)
    assert app.jobs.get(app.dead.get(dead_letter).job_id).result(PATIENCE) == "8 by 4711"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"args": "[1, 2, 3, 4]"}, "positional"),
        ({"args": '["seven"]'}, "'order': expected int"),
        ({"args": "{}"}, "args: expected a list such as [1, 2]"),
        ({"kwargs": "{fine"}, "kwargs: this is not valid JSON"),
        ({"args": f'["{MASK}"]'}, "where no secret was"),
    ],
)
def test_wrong_arguments_leave_a_dead_letter_pending(
    app: Headrace, client: Client, died: Dying, form: dict[str, str], expected: str
) -> None:
    dead_letter = died(7)
    assert expected in refused(client, f"/dead/{dead_letter}/requeue", **form)
    assert status_of(app, dead_letter) == ["pending"]
    assert state_of(app, dead_letter) is State.FAILED


def test_a_dead_letter_of_a_deleted_job_is_shown_and_requeued(app: Headrace, client: Client, died: Dying) -> None:
    dead_letter = died(7, "4711")
    job = app.jobs.get(app.dead.get(dead_letter).job_id)
    job.delete()
    page = client.get(f"/dead/{dead_letter}")
    assert (page.status_code, '<span class="tag">deleted</span>' in page.text) == (200, True)
    wanted = json.dumps([8, MASK])
    message = refused(client, f"/dead/{dead_letter}/requeue", args=wanted)
    assert message == f"The job is deleted, so {MASK} can't be resolved: write the secrets out."
    assert status_of(app, dead_letter) == ["pending"]
    message = do(client, f"/dead/{dead_letter}/requeue", args='[8, "4712"]', kwargs='{"fine": true}')
    assert message.endswith("It was deleted, and is stored again.")
    drain(app)
    assert app.jobs.get(job.id).result(PATIENCE) == "8 by 4712"


def test_a_job_that_was_requeued_too_often_fails_permanently(
    app: Headrace, client: Client, died: Dying, clock: VirtualClock
) -> None:
    dead_letter = used_up(app, clock, died())
    message = refused(client, f"/dead/{dead_letter}/requeue", 409)
    assert "was requeued 3 times already" in message
    assert status_of(app, dead_letter) == ["permanently_failed"]
    assert state_of(app, dead_letter) is State.FAILED


def test_a_dead_letter_is_resolved_once_and_noted_any_number_of_times(
    app: Headrace, client: Client, died: Dying
) -> None:
    dead_letter = died()
    assert do(client, f"/dead/{dead_letter}/note", text="looking into it") == "Noted."
    assert "not empty" in refused(client, f"/dead/{dead_letter}/note", text=" ")
    message = do(client, f"/dead/{dead_letter}/resolve", status="permanently_failed", note="the bank is closed")
    assert message == "This dead letter is permanently failed."
    assert "permanently_failed already" in refused(client, f"/dead/{dead_letter}/resolve")
    assert do(client, f"/dead/{dead_letter}/note", text="for good") == "Noted."
    closed = app.dead.get(dead_letter)
    assert (closed.status, closed.resolved_by) == ("permanently_failed", "local")
    assert [note.text for note in closed.notes] == ["looking into it", "the bank is closed", "for good"]
    assert {note.by for note in closed.notes} == {"local"}
    assert do(client, f"/dead/{died()}/resolve") == "This dead letter is manually resolved."


# -- by hand


def test_a_dead_letter_is_added_by_a_form(app: Headrace, client: Client) -> None:
    app.task(name="pay")(lambda: None)
    job = app.task_by_name("pay").using(delay=3600).enqueue()
    assert "Make a dead letter of a job" in client.get("/dead").text
    answer = client.post("/dead/add", data={"job_id": job.id, "reason": "wrong_total", "note": "ask the shop"})
    dead_letter = app.dead.get(job.id)
    assert answer.json()["goto"].endswith(f"/dead/{dead_letter.id}")
    assert (dead_letter.reason, dead_letter.notes[0].text, dead_letter.notes[0].by) == (
        "wrong_total",
        "ask the shop",
        "local",
    )
    assert job.refresh().state is State.FAILED
    assert app.audit.list()[0].target == dead_letter.id
    assert "has a pending dead letter already" in refused(client, "/dead/add", job_id=job.id)
    assert "no job" in refused(client, "/dead/add", 404, job_id="nowhere")


def test_a_dead_letter_shows_the_progress_of_its_job(app: Headrace, client: Client) -> None:
    @app.task(name="import", retry=0)
    def load() -> None:
        current_job().progress(0.25)
        current_job().step("fetch <all>", lambda: 1)
        current_job().log("row 7 is odd", row="<b>7</b>")
        raise ConnectionError("no bank")

    job = load.enqueue()
    drain(app)
    page = client.get(f"/dead/{app.dead.get(job.id).id}").text
    for text in ("0.25", "fetch &lt;all&gt;", "row 7 is odd", "&lt;b&gt;7&lt;/b&gt;", "Last log lines"):
        assert text in page
    assert "<b>7</b>" not in page


def test_a_new_dead_letter_is_shown_below_the_path_of_the_mount(app: Headrace) -> None:
    job = app.task_by_name("pay").using(delay=3600).enqueue()
    mounted = Client(Starlette(routes=[Mount("/ops", app.asgi())]), headers=WRITES)
    answer = mounted.post("/ops/dead/add", data={"job_id": job.id})
    assert answer.json()["goto"] == f"/ops/dead/{app.dead.get(job.id).id}"

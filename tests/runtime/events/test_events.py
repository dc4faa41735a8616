"""Events as an app sees them: followed from anywhere, and handled by one process at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace import Event, Headrace, InvalidJob, PermanentError, WebhookNotFound, Worker
from headrace.core.documents import Document
from headrace.core.events.webhooks import WebhookRow, verify
from headrace.errors import ConfigError, EngineUnavailable, HeadraceError
from headrace.runtime.events import handlers as listening
from headrace.runtime.events.handlers import KIND, HandlerCursor
from tests.support.gates import Gate
from tests.support.waiting import PATIENCE, eventually


def _types(app: Headrace, **which: Any) -> list[str]:
    return [event.type for event in app.events(follow=False, **which)]


def test_a_worker_emits_the_events_of_its_jobs(app: Headrace, worker: Worker) -> None:
    from headrace import current_job

    @app.task(name="speak")
    def speak() -> None:
        current_job().progress(0.5)
        current_job().log("hello", level="warning")

    speak.enqueue().result(PATIENCE)
    eventually(lambda: "job.completed" in _types(app, task="speak"), "the end is emitted")
    events = list(app.events(follow=False, task="speak"))
    types = [event.type for event in events]
    assert types == ["job.enqueued", "job.started", "job.progress", "job.log", "job.completed"]
    by_type = {event.type: event for event in events}
    assert by_type["job.progress"].data == {"progress": 0.5}
    assert by_type["job.log"].data == {"level": "warning", "message": "hello"}
    assert by_type["job.started"].data["wait"] >= 0
    assert by_type["job.completed"].worker == worker.id
    assert "worker.started" in _types(app)


@pytest.mark.every_engine
def test_a_worker_emits_an_event_when_nothing_is_left_to_run(app: Headrace) -> None:
    app.task(name="quick")(lambda: None)
    app.enqueue_many([{"task": "quick"} for _ in range(3)])
    app.run_worker(drain=True)
    app.enqueue("quick")
    app.run_worker(drain=True)
    assert [event.data for event in app.events(follow=False, types="worker.drained")] == [{"jobs": 3}, {"jobs": 1}]


def test_a_worker_emits_it_once_for_each_period_of_work(app: Headrace, worker: Worker) -> None:
    app.task(name="quick")(lambda: None)
    for times in (1, 2):
        app.enqueue("quick").result(PATIENCE)
        eventually(lambda: _types(app).count("worker.drained") == times, "that nothing is left")  # noqa: B023


@pytest.mark.every_engine
def test_a_worker_reports_an_outage_of_its_store(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, failures = app.engine.exchange, iter((EngineUnavailable("the server is away"), OSError("odd")))

    def fail_first(*args: Any, **more: Any) -> Any:
        for error in failures:
            raise error
        return exchange(*args, **more)

    monkeypatch.setattr(app.engine, "exchange", fail_first)
    with app.worker() as worker:
        eventually(lambda: "worker.error" in _types(app), "the error is emitted")
    [event] = app.events(follow=False, types="worker.error")
    assert (event.worker, event.data["error"], event.data["message"]) == (
        *(worker.id, "EngineUnavailable"),
        "the server is away",
    )
    assert event.data["seconds"] > 0


def test_a_worker_pauses_after_an_error_of_its_claims_and_reports_it(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, fails, times = app.engine.exchange, True, list[float]()

    def fail(*args: Any, **more: Any) -> Any:
        times.append(time.monotonic())
        if fails:
            raise KeyError("odd")
        return exchange(*args, **more)

    monkeypatch.setattr(app.engine, "exchange", fail)
    with app.worker():
        eventually(lambda: len(times) == 2, "the claim is tried again")
        fails = False
        eventually(lambda: "worker.error" in _types(app), "the error is emitted")
    [event] = app.events(follow=False, types="worker.error")
    assert (event.data["error"], times[1] - times[0] > 0.9) == ("KeyError", True)


@pytest.mark.every_engine
def test_a_handler_in_every_process_gets_the_start_of_its_own_worker(app: Headrace) -> None:
    workers: list[str | None] = []

    @app.on("worker.started", everywhere=True, name="seen")
    def seen(event: Event) -> None:
        workers.append(event.worker)

    with app.worker() as worker:
        eventually(lambda: bool(workers), "the start is received")
    assert workers == [worker.id]


def test_a_worker_that_works_is_not_started_again(app: Headrace) -> None:
    worker = app.worker()
    assert worker.start() is worker.start() is worker
    assert len(app.workers()) == 1
    assert _types(app).count("worker.started") == 1
    worker.stop()
    with pytest.raises(HeadraceError, match="has stopped; make a new one"):
        worker.start()


def test_the_start_of_a_long_run_is_emitted_while_it_runs(app: Headrace, worker: Worker) -> None:
    gate = Gate()
    app.task(name="long")(gate.pass_through)
    job = app.enqueue("long")
    gate.wait_until_reached()
    eventually(lambda: "job.started" in _types(app), "the start is emitted")
    gate.open()
    job.result(PATIENCE)
    eventually(lambda: _types(app, task="long").count("job.completed") == 1, "the end is emitted")
    assert _types(app, task="long").count("job.started") == 1


@pytest.mark.every_engine
def test_a_completion_after_a_lost_lease_is_emitted(app: Headrace, worker: Worker) -> None:
    """As by a worker that was suspended, if no other worker has taken its jobs meanwhile."""
    gate = Gate()
    app.task(name="long")(gate.pass_through)
    job = app.enqueue("long")
    gate.wait_until_reached()
    eventually(lambda: "job.started" in _types(app), "the start is emitted")
    [lease] = [attempt.lease for attempt in worker._worker_state.held()]
    worker._heartbeat._drop_lost(frozenset([lease]), "no lease renewal for 60 s")
    assert not worker._worker_state.held()
    gate.open()
    assert job.wait(PATIENCE) == "completed"
    eventually(lambda: "job.completed" in _types(app, task="long"), "the end is emitted")
    assert _types(app, task="long").count("job.completed") == 1


def test_events_are_followed_as_they_happen(app: Headrace) -> None:
    seen: list[Event] = []
    listening, enough = threading.Event(), threading.Event()
    cursor = app.events.last()

    def follow() -> None:
        listening.set()
        for event in app.events(cursor, types="job.*", queue="mail"):
            seen.append(event)
            if len(seen) == 2:
                break
        enough.set()

    threading.Thread(target=follow, daemon=True).start()
    assert listening.wait(PATIENCE)
    app.task_by_name("a").enqueue()
    for name in ("b", "c"):
        app.task_by_name(name).using(queue="mail").enqueue()
    assert enough.wait(PATIENCE)
    assert [event.task for event in seen] == ["b", "c"]
    assert [event.task for event in app.events(seen[0].cursor, follow=False)] == ["c"]


def test_coroutines_follow_the_same_events(app: Headrace) -> None:
    app.enqueue_many([app.task_by_name("x").bind(n) for n in range(3)])

    async def collect() -> list[str]:
        return [event.cursor async for event in app.aevents(follow=False)]

    assert asyncio.run(collect()) == [event.cursor for event in app.events(follow=False)]
    assert len(asyncio.run(collect())) == 3


def test_since_may_be_a_time(app: Headrace) -> None:
    app.task_by_name("x").enqueue()
    now = datetime.now(UTC)
    assert len(list(app.events(now - timedelta(hours=1), follow=False))) == 1
    assert list(app.events(now + timedelta(hours=1), follow=False)) == []
    for wrong in (datetime.now(), "yesterday", 7):
        with pytest.raises(InvalidJob):
            app.events(wrong, follow=False)  # type: ignore[arg-type]


def test_without_the_setting_no_event_of_a_job_is_stored(url: str) -> None:
    with Headrace(url, events=False) as app:

        @app.task(name="fails", retry=0)
        def fails(bad: bool) -> None:
            if bad:
                raise PermanentError("on purpose")

        app.enqueue_many([fails.bind(False), fails.bind(True)])
        app.run_worker(drain=True)
        assert sorted(set(_types(app, types="job.*"))) == ["job.attempt_failed", "job.failed"]


# -- handlers


@pytest.mark.every_engine
def test_a_draining_worker_handles_the_events_of_its_jobs_before_it_ends(app: Headrace) -> None:
    handled: list[str] = []

    @app.on("job.completed", name="all")
    def handle(event: Event) -> None:
        handled.append(event.type)
        if len(handled) == 1:
            raise RuntimeError("it is tried again")

    app.task(name="quick")(lambda: None)
    app.enqueue_many([{"task": "quick"} for _ in range(3)])
    app.run_worker(drain=True)
    assert handled == ["job.completed"] * 4


def test_each_event_is_handled_once_and_in_order_however_many_listen(app: Headrace, url: str) -> None:
    seen: list[tuple[str, str | None]] = []
    lock = threading.Lock()
    others = [Headrace(url) for _ in range(2)] if url != "memory://" else []
    with contextlib.ExitStack() as stack:
        for place, each in enumerate([app, *others]):

            def handle(event: Event, place: int = place) -> None:
                with lock:
                    seen.append((event.cursor, event.task))

            each.on("job.enqueued", name="audit")(handle)
            stack.enter_context(each)
            stack.enter_context(each.listening())
        for number in range(30):
            app.task_by_name(f"t{number}").enqueue()
        eventually(lambda: len(seen) >= 30, "all are handled")
    assert [task for _, task in seen] == [f"t{number}" for number in range(30)]


def test_a_handler_goes_on_where_the_last_one_was_killed(app: Headrace) -> None:
    app.task_by_name("before").enqueue()
    cursor = app.events.last()
    gone = HandlerCursor(cursor, holder="who-was-killed", until=app.clock.now() - 1)
    assert app.engine.document_store.put([Document(KIND, "audit", 0, msgspec.json.encode(gone).decode())])
    app.task_by_name("missed").enqueue()
    seen: list[str | None] = []
    app.on("job.enqueued", name="audit")(lambda event: seen.append(event.task))
    with app.listening():
        eventually(lambda: seen == ["missed"], "it is handled")
    [document] = app.engine.document_store.get(KIND, ["audit"])
    assert msgspec.json.decode(document.value, type=HandlerCursor).holder == "", "the next one need not wait"


def test_a_holder_keeps_its_subscription_while_its_lease_lasts(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_LEASE_MS", 3_600_000)
    busy = HandlerCursor(app.events.last(), holder="somebody", until=app.clock.now() + 3_600_000)
    app.engine.document_store.put([Document(KIND, "audit", 0, msgspec.json.encode(busy).decode())])
    seen: list[Event] = []
    everywhere: list[Event] = []
    app.on("job.enqueued", name="audit")(seen.append)
    app.on("job.*", name="here", everywhere=True)(everywhere.append)
    with app.listening():
        app.task_by_name("x").enqueue()
        eventually(lambda: everywhere, "this process got it")
    assert seen == []


def test_a_handler_that_fails_is_tried_again_and_then_passed_over(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listening, "_PAUSES", (0.01, 0.01))
    tried: list[str | None] = []

    async def handle(event: Event) -> None:
        tried.append(event.task)
        if event.task == "bad":
            raise RuntimeError("not this one")

    app.on("job.enqueued", name="picky")(handle)
    with caplog.at_level(logging.CRITICAL, "headrace.events"), app.listening():
        for name in ("good", "bad", "next"):
            app.task_by_name(name).enqueue()
        eventually(lambda: tried[-1:] == ["next"], "it goes on")
        eventually(lambda: "worker.error" in _types(app), "it is sent")
    assert tried == ["good", "bad", "bad", "bad", "next"]
    [error] = app.events(follow=False, types="worker.error")
    assert error.data["subscription"] == "picky"
    assert error.data["error"] == "RuntimeError: not this one"


def test_two_handlers_of_one_name_are_refused(app: Headrace) -> None:
    app.on("job.log", name="one")(print)
    with pytest.raises(ConfigError, match="one"):
        app.on("job.log", name="one")(lambda event: None)
    with pytest.raises(InvalidJob, match=r"did you mean job\.completed"):
        app.on("job.complete")


# -- webhooks


class Receiver:
    """A web server whose answers the test sets."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append((dict(self.headers), body))
                self.send_response(receiver.status)
                self.send_header("location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=x"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join(PATIENCE)
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def test_an_event_is_sent_signed_and_without_arguments(app: Headrace, receiver: Receiver, worker: Worker) -> None:
    @app.task(name="fails", retry=0)
    def fails(password: str) -> None:
        raise PermanentError("on purpose")

    hook = app.webhooks.create(receiver.url, "job.failed")
    assert hook.secret is not None
    job = fails.enqueue("sesame")
    eventually(lambda: receiver.got, "the message comes")
    headers, body = receiver.got[0]
    assert verify(hook.secret, headers, body, datetime.now(UTC))
    message = msgspec.json.decode(body)
    assert (message["type"], message["data"]["job_id"]) == ("job.failed", job.id)
    assert b"sesame" not in body
    [delivery] = app.webhooks.deliveries(hook.id)
    assert delivery.result(PATIENCE) == 204
    assert app.webhooks.get(hook.id).secret is None
    assert len(receiver.got) == 1, "messages make no messages"


@pytest.mark.engines("sqlite")
def test_what_is_not_taken_is_tried_again_and_a_redirect_is_not_followed(
    app: Headrace, receiver: Receiver, worker: Worker
) -> None:
    hook = app.webhooks.create(receiver.url, "queue.paused")
    receiver.status = 302
    app.queue("mail").pause()
    eventually(lambda: [job.state for job in app.webhooks.deliveries(hook.id)] == ["retrying"], "it is put off")
    [delivery] = app.webhooks.deliveries(hook.id)
    assert "answered 302" in delivery.errors[0].message
    assert "token" not in delivery.errors[0].message
    receiver.status = 200
    delivery.promote()
    assert delivery.result(PATIENCE) == 200


@pytest.mark.engines("sqlite")
def test_a_webhook_created_while_they_are_read_is_known_at_the_next_read(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = app.webhooks
    read = hooks._stored

    def read_and_create() -> list[WebhookRow]:
        found = read()
        monkeypatch.undo()
        hooks.create("https://example.com/hook", "queue.paused")
        return found

    monkeypatch.setattr(hooks, "_stored", read_and_create)
    assert hooks._current_filter(False) is None
    current = hooks._current_filter(False)
    assert current is not None
    assert current.types == {"queue.paused"}


@pytest.mark.engines("sqlite")
def test_a_failed_read_of_the_webhooks_is_repeated_at_once(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = app.webhooks
    hooks.create("https://example.com/hook", "queue.paused")

    def fail() -> list[WebhookRow]:
        raise EngineUnavailable("away")

    monkeypatch.setattr(hooks, "_stored", fail)
    with pytest.raises(EngineUnavailable):
        hooks._current_filter(False)
    monkeypatch.undo()
    assert hooks._current_filter(False) is not None


@pytest.mark.slow
@pytest.mark.engines("sqlite")
def test_a_deleted_webhook_gets_no_more_events(app: Headrace, receiver: Receiver, worker: Worker) -> None:
    hook = app.webhooks.create(receiver.url, "queue.*")
    receiver.status = 410
    app.queue("mail").pause()
    eventually(lambda: app.webhooks.get(hook.id).paused, "it is paused")
    assert "410" in str(app.webhooks.get(hook.id).reason)
    assert not app.webhooks.resume(hook.id).paused
    app.webhooks.delete(hook.id)
    assert app.webhooks.list() == []
    with pytest.raises(WebhookNotFound):
        app.webhooks.get(hook.id)


@pytest.mark.engines("sqlite")
def test_a_secret_is_encrypted_where_there_are_keys(folder: Path, receiver: Receiver) -> None:
    import base64

    key = "k1:" + base64.b64encode(b"x" * 32).decode()
    with Headrace(f"sqlite:///{folder}/q.db", encryption_keys=[key], webhook_networks=["any"]) as app:
        hook = app.webhooks.create(receiver.url, "job.failed")
        [document] = app.engine.document_store.get("webhooks")
        assert hook.secret is not None
        assert hook.secret not in document.value
        assert app.webhooks.test(hook.id) == 204
        assert verify(hook.secret, receiver.got[0][0], receiver.got[0][1], datetime.now(UTC))

"""`current_job().stream()` and the readers of it: order, cursors, ends, limits, lost answers, and lost leases."""

from __future__ import annotations

import asyncio
import datetime
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headrace import (
    Chunk,
    EngineUnavailable,
    Headrace,
    InvalidJob,
    Job,
    JobNotFound,
    LeaseLost,
    PayloadTooLarge,
    Worker,
    current_job,
)
from headrace.core.jobs.details import STREAM, StreamRange
from headrace.core.jobs.records import JobNote, LogLine
from headrace.runtime.worker import stream_buffer
from headrace.testing import VirtualClock, drain
from tests.support.gates import SOON, Gate
from tests.support.waiting import PATIENCE, eventually


def data(chunks: Sequence[Chunk]) -> list[Any]:
    return [chunk.data for chunk in chunks]


def now(job: Job[Any], after: str | None = None) -> list[Chunk]:
    """What is stored by now."""
    return list(job.stream(after, follow=False))


def lines(app: Headrace, job: Job[Any]) -> list[LogLine]:
    return app.engine.queries.details(job.id, stream=StreamRange(0, 10_000)).stream


def test_a_reader_gets_all_chunks_in_their_order_and_ends_with_the_job(
    app: Headrace, worker: Worker, task: Callable[..., Any]
) -> None:
    @task
    def tell() -> None:
        for number in range(300):
            current_job().stream(f"{number} ☃")
        current_job().stream({"done": True, "at": datetime.date(2026, 3, 1)})

    job = tell.enqueue()
    chunks = list(job.stream())
    assert data(chunks) == [*(f"{number} ☃" for number in range(300)), {"done": True, "at": datetime.date(2026, 3, 1)}]
    assert [chunk.number for chunk in chunks] == list(range(1, 302))
    assert {chunk.attempt for chunk in chunks} == {1}
    assert job.refresh().state == "completed"
    assert list(job.stream()) == chunks, "it stays with the job"


def test_chunks_are_read_while_the_job_runs(app: Headrace, worker: Worker) -> None:
    gate, further = Gate(), Gate()

    @app.task
    def tell() -> None:
        current_job().stream("one")
        gate.pass_through()
        current_job().stream("two")
        further.pass_through()

    job = tell.enqueue()
    reader = job.stream()
    assert next(reader).data == "one"
    gate.open()
    assert next(reader).data == "two"
    assert job.refresh().state == "running"
    further.open()
    assert list(reader) == []


def test_a_coroutine_streams_and_reads_without_blocking(app: Headrace, worker: Worker) -> None:
    @app.task
    async def tell() -> None:
        for number in range(20):
            await current_job().astream(number)

    async def read() -> list[Any]:
        job = await tell.aenqueue()
        return [chunk.data async for chunk in job.astream()]

    assert asyncio.run(read()) == list(range(20))


@pytest.mark.slow
@pytest.mark.engines("sqlite")
def test_a_process_of_its_own_streams_as_fast_as_its_worker_stores(url: str) -> None:
    from tests.runtime.jobs import shop  # it is imported by the process as well

    with Headrace(url, shutdown_timeout=5.0) as app:
        job = app.task(isolation="process", name="chatter")(shop.chatter).enqueue(2000)
        with app.worker():
            assert data(list(job.stream())) == ["x" * 300] * 2000


def test_a_reader_goes_on_behind_any_cursor(app: Headrace) -> None:
    @app.task
    def tell() -> None:
        for number in range(10):
            current_job().stream(number)

    job = tell.enqueue()
    drain(app)
    chunks = now(job)
    for place, chunk in enumerate(chunks):
        assert data(now(job, chunk.cursor)) == list(range(place + 1, 10))
    with pytest.raises(InvalidJob, match="not the cursor of a chunk"):
        job.stream("17")


def test_a_retry_begins_anew_and_keeps_what_was_streamed(app: Headrace, worker: Worker) -> None:
    @app.task(retry=SOON)
    def tell() -> None:
        current_job().stream("a")
        current_job().stream("b")
        if current_job().attempt == 1:
            raise OSError

    chunks = list(tell.enqueue().stream())
    assert [(chunk.attempt, chunk.number, chunk.data) for chunk in chunks] == [
        (1, 1, "a"),
        (1, 2, "b"),
        (2, 1, "a"),
        (2, 2, "b"),
    ]


@pytest.mark.engines("sqlite")
def test_a_run_that_goes_on_after_a_sleep_is_a_run_of_the_same_attempt() -> None:
    clock = VirtualClock()
    with Headrace("memory://", clock=clock) as app:

        @app.task
        def tell() -> None:
            current_job().step("told", current_job().stream, "once")
            current_job().stream("again")
            current_job().sleep(60)

        job = tell.enqueue()
        drain(app)
        clock.advance(61)
        drain(app)
        chunks = list(job.stream())
    assert [(chunk.attempt, chunk.number, chunk.data) for chunk in chunks] == [
        (1, 1, "once"),
        (1, 2, "again"),
        (1, 1, "again"),
    ]


def test_a_job_that_never_streamed_has_an_empty_stream(app: Headrace, worker: Worker) -> None:
    @app.task
    def quiet() -> None: ...

    assert list(quiet.enqueue().stream()) == []


def test_the_stream_is_no_part_of_the_log_and_the_events_say_nothing_of_it(app: Headrace, worker: Worker) -> None:
    @app.task
    def tell() -> None:
        current_job().stream("s3cret")
        current_job().log("a line")

    job = tell.enqueue()
    job.wait(PATIENCE)
    assert [line.message for line in job.logs()] == ["a line"]
    events = eventually(lambda: list(app.events(types="job.stream", follow=False)))
    assert [(event.job_id, event.attempt, event.data) for event in events] == [(job.id, 1, {})]
    assert "s3cret" not in str(list(app.events(follow=False)))


def test_a_deleted_job_has_no_stream(app: Headrace) -> None:
    @app.task
    def tell() -> None:
        current_job().stream("x")

    job = tell.enqueue()
    drain(app)
    assert job.delete()
    with pytest.raises(JobNotFound):
        now(job)


# -- batches and limits


@pytest.mark.engines("sqlite")
def test_many_chunks_are_few_lines(app: Headrace, worker: Worker) -> None:
    @app.task
    def tell() -> None:
        for number in range(5000):
            current_job().stream(number)

    job = tell.enqueue()
    assert len(list(job.stream())) == 5000
    assert len(lines(app, job)) < 50


@pytest.mark.engines("sqlite")
def test_what_is_too_large_is_refused_and_the_rest_is_streamed(url: str) -> None:
    with Headrace(url, max_chunk=100, max_stream=1024) as app:

        @app.task
        def tell() -> list[str]:
            refused = []
            for chunk in ["x" * 200, *["y" * 90] * 20]:
                try:
                    current_job().stream(chunk)
                except PayloadTooLarge as error:
                    refused.append(str(error))
            return refused

        job = tell.enqueue()
        drain(app)
        refused = job.result()
        assert "limit of 100 bytes (max_chunk)" in refused[0]
        assert "1023 bytes" in refused[1] or "has streamed 1023" in refused[1]
        assert data(now(job)) == ["y" * 90] * 11


class Line:
    """The engine's exchange, which can fail before or after it was done, whenever it has chunks."""

    def __init__(self, app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
        self._exchange = app.engine.exchange
        self.is_away = threading.Event()
        self.loses_answers = 0
        self.refuses = False
        monkeypatch.setattr(app.engine, "exchange", self)

    def __call__(self, outcomes: Any, want: Any, notes: Sequence[JobNote] = (), *rest: Any, **named: Any) -> Any:
        if self.is_away.is_set():
            raise EngineUnavailable("away")
        has_chunks = any(note.level == STREAM for note in notes)
        if has_chunks and self.refuses and want is not None and want.limit > 0:
            self.refuses = False
            raise ValueError("refused, whatever the reason")
        answer = self._exchange(outcomes, want, notes, *rest, **named)
        if has_chunks and self.loses_answers:
            self.loses_answers -= 1
            raise EngineUnavailable("the line broke off after the commit")
        return answer


@pytest.fixture
def line(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> Line:
    return Line(app, monkeypatch)


def test_chunks_that_are_stored_twice_after_a_lost_answer_are_read_once(
    app: Headrace, line: Line, worker: Worker
) -> None:
    gate = Gate()

    @app.task
    def tell() -> None:
        for number in range(5):
            current_job().stream(number)
        gate.pass_through()
        current_job().stream(5)

    line.loses_answers = 2
    job = tell.enqueue()
    reader = job.stream()
    first = [next(reader) for _ in range(5)]
    eventually(lambda: len(lines(app, job)) > 1, what="a line that is stored again")
    gate.open()
    assert data([*first, *reader]) == [0, 1, 2, 3, 4, 5]


def test_an_exchange_that_the_store_refuses_loses_no_chunk(app: Headrace, line: Line, worker: Worker) -> None:
    @app.task
    def tell() -> None:
        for number in range(5):
            current_job().stream(number)

    line.refuses = True
    assert data(list(tell.enqueue().stream())) == [0, 1, 2, 3, 4]
    assert not line.refuses


def test_a_job_waits_while_its_worker_cannot_store_what_it_streams(
    app: Headrace, line: Line, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_buffer, "ROOM", 1000)
    gate, streamed = Gate(), [0]

    @app.task
    def tell() -> None:
        gate.pass_through()
        for _ in range(100):
            current_job().stream("x" * 97)
            streamed[0] += 1

    job = tell.enqueue()
    gate.wait_until_reached()
    line.is_away.set()
    gate.open()
    eventually(lambda: streamed[0] == 10, what="chunks until there is no room")
    assert not worker._worker_state.streams.has_room(next(iter(worker._worker_state.attempts)), 0.05)
    assert streamed[0] == 10
    line.is_away.clear()
    assert len(list(job.stream())) == 100


def test_a_cancelled_job_learns_it_when_it_streams(app: Headrace, worker: Worker) -> None:
    gate, told = Gate(), list[str]()

    @app.task
    def tell() -> None:
        current_job().stream("before")
        gate.pass_through()
        try:
            while True:
                current_job().heartbeat()
        except LeaseLost:
            pass
        eventually(lambda: current_job().cancel_requested)
        try:
            current_job().stream("after")
        except LeaseLost as error:
            told.append(str(error))

    job = tell.enqueue()
    gate.wait_until_reached()
    eventually(lambda: data(now(job)) == ["before"])
    assert job.cancel()
    gate.open()
    assert data(list(job.stream())) == ["before"], "a reader ends with the job"
    eventually(lambda: told)
    assert "stop working on it" in told[0]
    assert data(now(job)) == ["before"]


def test_a_reader_goes_on_after_an_outage(app: Headrace, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task
    def tell() -> None:
        current_job().stream("x")

    job = tell.enqueue()
    job.wait(PATIENCE)
    details, outages = app.engine.queries.details, [1]

    def broken(*args: Any, **named: Any) -> Any:
        if named.get("stream") is not None and outages:
            outages.pop()
            raise EngineUnavailable("no route to the server")
        return details(*args, **named)

    monkeypatch.setattr(app.engine.queries, "details", broken)
    with pytest.raises(EngineUnavailable):
        now(job)
    outages.append(1)
    assert data(list(job.stream())) == ["x"]


# -- other places


@pytest.mark.engines("sqlite")
def test_an_archived_job_keeps_its_stream(url: str) -> None:
    with Headrace(url, keep_completed=0) as app:

        @app.task
        def tell() -> None:
            current_job().log("a line")
            for number in range(10):
                current_job().stream(number)

        job = tell.enqueue()
        drain(app)
        app.lifecycle.archive(dry_run=False)
        archived = app.jobs.get(job.id)
        assert archived.archived
        chunks = list(archived.stream())
        assert data(chunks) == list(range(10))
        assert data(now(archived, chunks[3].cursor)) == list(range(4, 10))
        assert [line.message for line in archived.logs()] == ["a line"]


@pytest.mark.engines("sqlite")
def test_a_dead_letter_shows_the_log_and_not_the_stream(app: Headrace) -> None:
    @app.task(retry=0)
    def tell() -> None:
        current_job().log("a line")
        for _ in range(20):
            current_job().stream("x")
        raise ValueError

    job = tell.enqueue()
    drain(app)
    assert [line.message for line in app.dead.get(job.id).logs] == ["a line"]

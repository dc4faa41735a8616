"""A trace tells the whole way of a job: who enqueued it, each attempt, what came before; and no secret."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headrace import ConfigError, EngineUnavailable, Headrace, InvalidJob, Retry, Snooze, chain, current_job
from headrace.contrib.otel import context_of, instrument, uninstrument
from headrace.runtime.retention.removal import RetentionCounts
from headrace.runtime.retention.sweep_event import emit_run
from headrace.testing import drain
from tests.support.gates import SOON, Gate
from tests.support.waiting import PATIENCE, eventually
from tests.surfaces.otel import traced_shop


class Scene(NamedTuple):
    """An app that is traced, and all that it tells."""

    app: Headrace
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    provider: TracerProvider

    def spans(self, kind: SpanKind | None = None) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if kind is None or span.kind is kind]

    @property
    def sent(self) -> ReadableSpan:
        (only,) = self.spans(SpanKind.PRODUCER)
        return only

    def attempts(self, task: str | None = None) -> list[ReadableSpan]:
        found = self.spans(SpanKind.CONSUMER)
        return [span for span in found if task is None or about(span)["headrace.task"] == task]

    def counts(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics if data else ()
        return {
            metric.name: sum(getattr(point, "value", getattr(point, "count", 0)) for point in metric.data.data_points)
            for metric in metrics
        }


@pytest.fixture
def scene() -> Iterator[Scene]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader])
    with Headrace("memory://", shutdown_timeout=5.0) as app:
        instrument(app, provider, meters)
        yield Scene(app, exporter, reader, provider)
    provider.shutdown()
    meters.shutdown()


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def links_of(span: ReadableSpan) -> list[tuple[int, Any]]:
    return [(link.context.span_id, (link.attributes or {})["headrace.link"]) for link in span.links]


def test_a_trace_shows_the_producer_the_attempts_and_how_they_follow_each_other(scene: Scene) -> None:
    @scene.app.task(queue="mail", retry=SOON)
    def flaky() -> int:
        if current_job().attempt < 3:
            raise OSError("not yet")
        return 7

    with scene.provider.get_tracer("web").start_as_current_span("request") as request:
        job = flaky.using(metadata={"who": "ann"}).enqueue()
    with scene.app.worker(concurrency=1):
        assert job.result(PATIENCE) == 7
    sent, (first, second, third) = scene.sent, scene.attempts()
    assert sent.parent is not None
    assert sent.parent.span_id == request.get_span_context().span_id
    assert {span.context.trace_id for span in scene.spans() if span.context} == {request.get_span_context().trace_id}
    assert all(span.parent and span.parent.span_id == id_of(sent) for span in (first, second, third))
    assert [links_of(span) for span in (first, second, third)] == [
        [],
        [(id_of(first), "previous attempt")],
        [(id_of(second), "previous attempt")],
    ]
    assert (sent.name, first.name) == ("send mail", "process mail")
    told = {"messaging.system": "headrace", "messaging.destination.name": "mail", "messaging.message.id": job.id}
    assert told.items() <= about(sent).items()
    assert {**told, "headrace.attempt": 1, "headrace.task": "flaky"}.items() <= about(first).items()
    assert [about(span)["headrace.outcome"] for span in (first, second, third)] == ["retrying", "retrying", "completed"]
    assert [span.status.status_code for span in (first, third)] == [StatusCode.ERROR, StatusCode.UNSET]
    assert job.refresh().metadata == {"who": "ann"}


@pytest.mark.parametrize("way", ["async", "process"])
def test_an_attempt_surrounds_what_its_task_does_however_it_runs(way: str, scene: Scene) -> None:
    @scene.app.task
    async def whereabouts() -> tuple[str, str, str]:
        await asyncio.sleep(0)
        context = trace.get_current_span().get_span_context()
        return trace.format_span_id(context.span_id), current_job().correlation_id, current_job().worker

    app = scene.app if way == "async" else traced_shop.app
    instrument(app, scene.provider)
    with app.worker(concurrency=1) as worker:
        job = app.enqueue("whereabouts" if way == "async" else "where")
        told = job.result(PATIENCE)
    (attempt,) = scene.attempts()
    assert tuple(told) == (trace.format_span_id(id_of(attempt)), job.id, worker.id)


def test_what_a_job_enqueues_goes_on_in_its_trace_and_under_its_correlation(scene: Scene) -> None:
    @scene.app.task
    def inner() -> None: ...

    @scene.app.task
    def outer() -> None:
        inner.enqueue()
        current_job().spawn(inner.bind())

    with scene.app.correlation("order-7"):
        job = outer.enqueue()
    drain(scene.app)
    (attempt,) = scene.attempts("outer")
    sent = [span for span in scene.spans(SpanKind.PRODUCER) if about(span)["headrace.task"] == "inner"]
    assert [span.parent and span.parent.span_id for span in sent] == [id_of(attempt)] * 2
    below = scene.attempts("inner")
    assert {span.parent and span.parent.span_id for span in below} == {id_of(span) for span in sent}
    assert {about(span)["headrace.correlation_id"] for span in scene.attempts()} == {"order-7"}
    assert {one.correlation_id for one in scene.app.jobs.find()} == {"order-7"}
    assert job.refresh().metadata == {}


def test_a_job_of_a_flow_is_linked_to_the_jobs_it_waited_for(scene: Scene) -> None:
    @scene.app.task
    def double(n: int) -> int:
        return 2 * n

    flow = chain(double.bind(1), double.bind()).enqueue()
    drain(scene.app)
    first, second = scene.attempts()
    assert links_of(second) == [(id_of(first), "parent")]
    assert about(scene.sent)["headrace.flow"] == flow.id
    assert about(first)["headrace.correlation_id"] == about(second)["headrace.correlation_id"] == flow.id

    parent = double.enqueue(1)
    double.using(after=[parent]).enqueue(2)
    before = len(scene.spans())
    drain(scene.app)
    spans = scene.spans()[before:]
    parents_span = next(span for span in scene.spans() if about(span).get("messaging.message.id") == parent.id)
    assert links_of(spans[-1]) == [(id_of(parents_span), "parent")]


def test_a_batch_has_one_span_and_its_jobs_are_counted(scene: Scene) -> None:
    @scene.app.task
    def work(n: int) -> int:
        if n == 3:
            raise InvalidJob("three")
        return n

    scene.app.enqueue_many([work.using(retry=0).bind(n) for n in range(5)])
    drain(scene.app)
    assert about(scene.sent)["messaging.batch.message_count"] == 5
    assert {span.parent and span.parent.span_id for span in scene.attempts()} == {id_of(scene.sent)}
    counts = scene.counts()
    assert (counts["headrace.jobs.enqueued"], counts["headrace.jobs.completed"]) == (5, 4)
    assert (counts["headrace.jobs.failed"], counts["headrace.attempt.duration"]) == (1, 5)


def test_the_async_ways_make_one_span_each(scene: Scene) -> None:
    @scene.app.task
    def work() -> None: ...

    async def enqueue() -> None:
        await work.aenqueue()
        await scene.app.aenqueue_many([work.bind(), work.bind()])
        flow = scene.app.flow("three")
        for _ in range(3):
            flow.add(work.bind())
        await flow.aenqueue()

    asyncio.run(enqueue())
    assert [about(span).get("messaging.batch.message_count") for span in scene.spans()] == [None, 2, 3]
    [run] = scene.app.flows.list()
    assert [about(span).get("headrace.flow") for span in scene.spans()] == [None, None, run.id]


def test_an_error_is_told_without_the_secrets_of_the_job(scene: Scene) -> None:
    @scene.app.task(retry=0, redact=("pin",))
    def login(user: str, pin: str, headers: dict[str, str]) -> None:
        raise ValueError(f"{user}/{pin} was refused, {headers}")

    job = login.enqueue("ann", "47110", {"api_key": "sesame", "accept": "json"})
    drain(scene.app)
    (attempt,) = scene.attempts()
    (event,) = attempt.events
    told = str(dict(event.attributes or {})) + str(attempt.status.description) + str(about(attempt))
    assert "ValueError" in told
    assert "ann/*** was refused" in told
    assert "47110" not in told
    assert "sesame" not in told
    (line,) = job.logs()
    assert trace.format_trace_id(attempt.context.trace_id if attempt.context else 0) in line.fields["traceparent"]


def test_an_attempt_that_is_ended_from_outside_ends_its_span_then(scene: Scene) -> None:
    go_on = threading.Event()

    @scene.app.task(timeout=0.05, retry=0)
    def hang() -> None:
        go_on.wait(PATIENCE)

    with scene.app.worker(concurrency=1):
        job = hang.enqueue()
        job.wait(PATIENCE)
        (attempt,) = scene.attempts()
        go_on.set()
    assert about(attempt)["error.type"] == "JobTimeout"
    assert len(scene.attempts()) == 1


def test_an_attempt_whose_job_was_taken_away_is_told_to_be_lost(scene: Scene) -> None:
    gate = Gate()
    hold = scene.app.task(name="hold")(gate.pass_through)
    with scene.app.worker(concurrency=1):
        job = hold.enqueue()
        gate.wait_until_reached()
        assert job.cancel()
        eventually(scene.attempts, "the span")
        gate.open()
    (attempt,) = scene.attempts()
    assert about(attempt)["headrace.outcome"] == "lost"
    assert attempt.status.status_code is StatusCode.ERROR
    assert attempt.status.description == "the job was cancelled or its lease is lost"
    assert job.refresh().state == "cancelled"


def test_an_attempt_runs_without_links_while_the_store_can_t_be_asked_for_its_past(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    @scene.app.task(retry=SOON)
    def flaky() -> int:
        if current_job().attempt < 2:
            raise OSError("not yet")
        return 7

    def away(*_: Any) -> Any:
        raise EngineUnavailable("no route to the server")

    job = flaky.enqueue()
    with monkeypatch.context() as patch:
        patch.setattr(type(scene.app.jobs), "get", away)
        with scene.app.worker(concurrency=1):
            assert job.result(PATIENCE) == 7
    assert [links_of(span) for span in scene.attempts()] == [[], []]
    assert [about(span)["headrace.outcome"] for span in scene.attempts()] == ["retrying", "completed"]


def test_a_call_that_is_refused_is_an_error_of_the_producer(scene: Scene) -> None:
    @scene.app.task
    def work(n: int) -> None: ...

    with pytest.raises(InvalidJob):
        work.enqueue("no number")  # type: ignore[arg-type]
    assert scene.sent.status.status_code is StatusCode.ERROR
    assert about(scene.sent)["error.type"] == "InvalidJob"


def test_a_snooze_is_no_error_and_the_next_attempt_is_linked(scene: Scene) -> None:
    tried = []

    @scene.app.task(retry=Retry(limit=1))
    def patient() -> None:
        tried.append(1)
        if len(tried) == 1:
            raise Snooze(0)

    patient.enqueue()
    drain(scene.app)
    first, second = scene.attempts()
    assert first.status.status_code is StatusCode.UNSET
    assert links_of(second) == [(id_of(first), "previous attempt")]


def test_what_is_not_traced_pays_nothing_and_stores_nothing(scene: Scene) -> None:
    uninstrument(scene.app)

    @scene.app.task
    def work() -> None: ...

    job = work.enqueue()
    drain(scene.app)
    assert scene.spans() == []
    assert job.refresh().row.metadata is None
    assert not trace.get_current_span(context_of(job)).get_span_context().is_valid


def test_who_holds_a_job_can_go_on_in_its_trace(scene: Scene) -> None:
    @scene.app.task
    def work() -> None: ...

    job = work.enqueue()
    assert trace.get_current_span(context_of(job)).get_span_context().span_id == id_of(scene.sent)


def test_a_setting_turns_it_on_and_tells_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Headrace("memory://", otel=True) as app:
        assert app.task(nothing).submits.tracer is not None
    monkeypatch.setitem(sys.modules, "headrace.contrib.otel", None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[otel\]'"):
        Headrace("memory://", otel=True)


def nothing() -> None: ...


def test_a_worker_traces_what_it_takes_over(scene: Scene) -> None:
    """A job that nobody traced when it was enqueued begins a trace of its own."""

    @scene.app.task
    def work() -> None: ...

    uninstrument(scene.app)
    job = work.enqueue()
    instrument(scene.app, scene.provider)
    with scene.app.worker(concurrency=1):
        job.wait(PATIENCE)
        eventually(scene.attempts, "the span")
    (attempt,) = scene.attempts()
    assert attempt.parent is None


def test_what_is_archived_is_counted_by_one_of_those_who_listen(scene: Scene) -> None:
    app = scene.app
    instrument(app, scene.provider, MeterProvider([other := InMemoryMetricReader()]))
    assert other.get_metrics_data() is None
    with app.listening():
        emit_run(
            app.engine,
            app.settings,
            RetentionCounts(archived=3, prepared=["a", "b"], dropped=["c"], unprepared=1),
            1500,
        )
        emit_run(app.engine, app.settings, RetentionCounts(), 20, "OSError: no room")
        found = Scene(app, scene.exporter, other, scene.provider)
        eventually(lambda: "headrace.archive.failures" in found.counts(), "both walks are counted")
    counts = found.counts()
    assert counts["headrace.jobs.archived"] == 3
    assert counts["headrace.archive.duration"] == 2
    assert counts["headrace.archive.failures"] == 1
    names = ("created", "detached", "failures")
    assert [counts[f"headrace.partitions.{name}"] for name in names] == [2, 1, 1]

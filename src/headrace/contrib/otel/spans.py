"""The spans of jobs, by the semantic conventions for messaging, with `headrace.*` attributes for the rest.

A job stores the context in its trace context. An attempt that is retried, that failed or that has dependents writes its
span context to the job's log, in the commit of its outcome. The next attempt and the dependents read it there and link
to it. So attempts without links cost nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from msgspec import structs
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headrace import Call, Headrace, Job
from headrace.contrib.otel.metrics import OtelMetrics
from headrace.core.jobs.records import Claim, Outcome
from headrace.core.jobs.states import FINAL, State
from headrace.core.tasks.trace_context import NO_TRACE_CONTEXT, TraceContext, correlation_of, marked, trace_context_of
from headrace.errors import HeadraceError
from headrace.runtime.context.trace import ambient, following

TRACED = "traced"  # the message of the log line with the span context
_MAX_TRACESTATE = 512  # characters; the standard requires at least this many
_MAX_LINKS = 32
_w3c = TraceContextTextMapPropagator()
_submitting: ContextVar[bool] = ContextVar("headrace_otel_submitting", default=False)


def context_after(span: Span, trace_context: TraceContext) -> TraceContext:
    """The trace context with this span as the parent of what follows."""
    carrier: dict[str, str] = {}
    _w3c.inject(carrier, trace.set_span_in_context(span, Context()))
    state = carrier.get("tracestate")
    return structs.replace(
        trace_context,
        traceparent=carrier.get("traceparent"),
        tracestate=state if state and len(state) <= _MAX_TRACESTATE else None,
    )


def otel_context(trace_context: TraceContext) -> Context:
    """The OpenTelemetry context of a trace context; empty if there is none, or if it is unreadable."""
    carrier = {"traceparent": trace_context.traceparent, "tracestate": trace_context.tracestate}
    return _w3c.extract({name: value for name, value in carrier.items() if value}, Context())


class OtelTracer:
    """The tracer of one app."""

    def __init__(
        self, app: Headrace, tracer: trace.Tracer, counts: OtelMetrics, provider: trace.TracerProvider | None
    ) -> None:
        self._app = app
        self._tracer = tracer
        self._counts = counts
        self._provider = provider

    # -- submitting

    @contextmanager
    def submitting(self, what: object) -> Iterator[Callable[[Sequence[Job[Any]]], None]]:
        if _submitting.get():  # an async call may run the blocking one
            yield lambda jobs: None
            return
        token = _submitting.set(True)
        known = {"headrace.task": what.task.name} if isinstance(what, Call) else {}
        span = self._tracer.start_span("send", kind=SpanKind.PRODUCER, attributes={**_OPERATION["send"], **known})
        try:
            with (
                trace.use_span(span, record_exception=False, set_status_on_exception=False),
                following(context_after(span, ambient.get() or NO_TRACE_CONTEXT)),
            ):
                yield lambda jobs: self._submitted(span, jobs)
        except BaseException as error:  # only its type: the message may quote arguments
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            _submitting.reset(token)
            span.end()

    def _submitted(self, span: Span, jobs: Sequence[Job[Any]]) -> None:
        self._counts.enqueued(jobs)
        if not span.is_recording():
            return
        queues, tasks = sorted({job.queue for job in jobs}), sorted({job.task for job in jobs})
        if len(queues) == 1:
            span.update_name(f"send {queues[0]}")
            span.set_attribute("messaging.destination.name", queues[0])
        if len(tasks) == 1:
            span.set_attribute("headrace.task", tasks[0])
        if len(jobs) == 1:
            span.set_attribute("messaging.message.id", jobs[0].id)
        else:
            span.set_attribute("messaging.batch.message_count", len(jobs))
        if jobs and jobs[0].flow:
            span.set_attribute("headrace.flow", jobs[0].flow)

    # -- running

    def begin(self, claim: Claim, log: Callable[..., None]) -> AttemptSpan:
        trace_context = trace_context_of(claim.metadata)
        span = self._tracer.start_span(
            f"process {claim.queue}",
            otel_context(trace_context),
            kind=SpanKind.CONSUMER,
            attributes={**_OPERATION["process"], **_attributes(claim)},
        )
        self._counts.began(claim, self._app.clock.now())
        return AttemptSpan(self, claim, trace_context, span, log)

    def record_end(self, claim: Claim, outcome: Outcome | None, seconds: float) -> None:
        self._counts.record_end(claim, outcome, seconds)

    def links_of(self, claim: Claim, trace_context: TraceContext) -> Iterator[tuple[str, SpanContext]]:
        """The spans to link to, each with the kind of link: the previous attempt, and parents."""
        try:
            job = self._app.jobs.get(claim.id)
            if previous := _last_span(job):
                yield "previous attempt", previous
            if trace_context.has_dependencies:
                for parent in job.parents()[:_MAX_LINKS]:
                    yield "parent", _last_span(parent) or _context_in(trace_context_of(parent.row.metadata))
        except HeadraceError:  # the job is deleted, or the store is unavailable: a trace without links is still useful
            return

    # -- in a sandbox

    @contextmanager
    def inside(self, claim: Claim) -> Iterator[None]:
        trace_context = trace_context_of(claim.metadata)
        token = contexts.attach(otel_context(trace_context))
        try:
            with following(trace_context):
                yield
        finally:
            contexts.detach(token)

    def flush(self) -> None:
        flush = getattr(
            self._provider or trace.get_tracer_provider(), "force_flush", None
        )  # only providers of the SDK have it
        if flush is not None:
            flush()


class AttemptSpan:
    """The span of one attempt. It ends with the attempt: by the task, its timeout or an operator."""

    def __init__(
        self, spans: OtelTracer, claim: Claim, trace_context: TraceContext, span: Span, log: Callable[..., None]
    ) -> None:
        self._spans = spans
        self._claim = claim
        self._trace_context = trace_context
        self._span = span
        self._log = log
        self._began = time.monotonic()
        own = TraceContext(correlation=correlation_of(claim.metadata, claim.id))
        self._own = context_after(span, own)

    @property
    def has_past(self) -> bool:
        return self._span.is_recording() and (self._claim.version > 2 or self._trace_context.has_dependencies)

    def link_predecessors(self) -> None:
        if self.has_past:
            for kind, linked in self._spans.links_of(self._claim, self._trace_context):
                if linked.is_valid:
                    self._span.add_link(linked, {"headrace.link": kind})

    def handed_on(self, claim: Claim) -> Claim:
        return structs.replace(claim, metadata=marked(claim.metadata, self._own))

    def __enter__(self) -> None:
        self._tokens = (
            contexts.attach(trace.set_span_in_context(self._span)),
            ambient.set(self._own),
            _submitting.set(False),
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None, /
    ) -> None:
        context, trace_context, submitting = self._tokens
        _submitting.reset(submitting)
        ambient.reset(trace_context)
        contexts.detach(context)

    def end(self, outcome: Outcome | None) -> None:
        self._spans.record_end(self._claim, outcome, time.monotonic() - self._began)
        if self._span.is_recording():
            self._record(outcome)
        self._span.end()

    def _record(self, outcome: Outcome | None) -> None:
        state = "lost" if outcome is None else outcome.state.value
        self._span.set_attribute("headrace.outcome", state)
        if outcome is None:
            self._span.set_status(Status(StatusCode.ERROR, "the job was cancelled or its lease is lost"))
            return
        if outcome.error_type is not None:
            self._record_error(outcome)
        elif outcome.reason:
            self._span.set_attribute("headrace.reason", outcome.reason)
        if self._trace_context.has_dependencies or outcome.state not in FINAL or outcome.state is State.FAILED:
            self._log(TRACED, "debug", traceparent=self._own.traceparent)

    def _record_error(self, outcome: Outcome) -> None:
        kind, message = str(outcome.error_type), outcome.error_message or ""
        attributes = {"exception.type": kind, "exception.message": message}
        if outcome.error_traceback:
            attributes["exception.stacktrace"] = outcome.error_traceback
        self._span.add_event("exception", attributes)
        self._span.set_attribute("error.type", kind)
        self._span.set_status(Status(StatusCode.ERROR, f"{kind}: {message}"))


_OPERATION = {
    name: {"messaging.system": "headrace", "messaging.operation.name": name, "messaging.operation.type": name}
    for name in ("send", "process")
}


def _attributes(claim: Claim) -> Mapping[str, str | int]:
    return {
        "messaging.destination.name": claim.queue,
        "messaging.message.id": claim.id,
        "headrace.task": claim.task,
        "headrace.attempt": claim.attempt,
        "headrace.max_attempts": claim.max_attempts,
        "headrace.correlation_id": correlation_of(claim.metadata, claim.id),
    }


def _last_span(job: Job[Any]) -> SpanContext | None:
    """The span context in the job's log, written by its last attempt."""
    for line in reversed(job.logs()):
        if line.message == TRACED and isinstance(parent := line.fields.get("traceparent"), str):
            return _context_in(TraceContext(traceparent=parent))
    return None


def _context_in(trace_context: TraceContext) -> SpanContext:
    return trace.get_current_span(otel_context(trace_context)).get_span_context()

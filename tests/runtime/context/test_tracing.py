"""The link of an attempt for the next one is stored with its outcome, on every store, encrypted or not."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from headrace import Headrace, chain, current_job
from headrace.contrib.otel import instrument
from headrace.core.jobs.records import Claim, Outcome
from tests.support.gates import SOON
from tests.support.waiting import PATIENCE


def traced(app: Headrace) -> Callable[[], list[ReadableSpan]]:
    """Trace the app; the attempts so far, in the order they ended."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(app, provider)
    return lambda: [span for span in exporter.get_finished_spans() if span.kind is SpanKind.CONSUMER]


def linked(spans: list[ReadableSpan]) -> list[list[int]]:
    """For each attempt, the places of those it links to."""
    places = {span.context.span_id: place for place, span in enumerate(spans) if span.context}
    return [[places[link.context.span_id] for link in span.links] for span in spans]


def test_attempts_and_dependencies_are_linked_on_every_store(app: Headrace, task: Callable[..., Any]) -> None:
    attempts = traced(app)

    @task(retry=SOON)
    def second_time(before: int = 0) -> int:
        if current_job().attempt == 1:
            raise OSError("again")
        return before + 1

    with app.worker(concurrency=1):
        run = chain(second_time.bind(), second_time.bind()).enqueue()
        assert run.result(PATIENCE) == 2
    assert linked(attempts()) == [[], [0], [1], [2, 1]]


@pytest.mark.engines("sqlite")
def test_encrypted_jobs_are_linked_as_well() -> None:
    key = f"k1:{base64.b64encode(bytes(32)).decode()}"
    with Headrace("memory://", encryption_keys=[key]) as app:
        attempts = traced(app)

        @app.task(retry=SOON)
        def second_time() -> None:
            if current_job().attempt == 1:
                raise OSError("again")

        with app.worker(concurrency=1):
            second_time.enqueue().result(PATIENCE)
        assert linked(attempts()) == [[], [0]]


class Stumbling:
    """A tracer that fails wherever it can while a job runs."""

    def __init__(self, at: str) -> None:
        self._at = at
        self.has_past = True

    def _stumble(self, method: str) -> None:
        if method == self._at:
            raise RuntimeError(f"stumbled at {method}")

    @contextmanager
    def submitting(self, what: object) -> Iterator[Callable[..., None]]:
        yield lambda jobs: None

    def begin(self, claim: Claim, log: Callable[..., None]) -> Stumbling:
        self._stumble("begin")
        return self

    def link_predecessors(self) -> None:
        self._stumble("link_predecessors")

    def handed_on(self, claim: Claim) -> Claim:
        return claim

    @contextmanager
    def inside(self, claim: Claim) -> Iterator[None]:
        yield

    def flush(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...

    def end(self, outcome: Outcome | None) -> None:
        self._stumble("end")


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("at", ["begin", "link_predecessors", "end"])
def test_a_failing_tracer_fails_no_job(
    app: Headrace, task: Callable[..., Any], at: str, caplog: pytest.LogCaptureFixture
) -> None:
    app.trace(Stumbling(at))

    @task
    def work() -> int:
        return 7

    with app.worker(concurrency=1):
        assert [work.enqueue().result(PATIENCE) for _ in range(3)] == [7, 7, 7]
    assert f"stumbled at {at}" in caplog.text

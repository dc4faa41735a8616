"""OpenTelemetry: spans from enqueue() through every attempt, and the counts of this process.

    from headrace.contrib.otel import instrument

    instrument(app)

A span of kind PRODUCER is around the storing of jobs, one of kind CONSUMER around each attempt, in the same trace; the
setting `otel` does the same without code. The OpenTelemetry providers decide where spans go
(`opentelemetry-instrument`, or your own code). `spans` has the spans, `metrics` the counts.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider, get_meter

from headrace import Headrace, Job, __version__
from headrace.contrib.otel.metrics import OtelMetrics
from headrace.contrib.otel.spans import OtelTracer, otel_context
from headrace.core.tasks.trace_context import trace_context_of

__all__ = ["context_of", "instrument", "uninstrument"]

_SCHEMA = "https://opentelemetry.io/schemas/1.27.0"


def instrument(
    app: Headrace,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Trace and count everything this app enqueues and runs. Call it before its workers start.

    Without providers, the global ones of OpenTelemetry are used, also if they are set later.
    """
    tracer = trace.get_tracer("headrace", __version__, tracer_provider, _SCHEMA)
    meter = get_meter("headrace", __version__, meter_provider, _SCHEMA)
    counts = OtelMetrics(meter)
    app.trace(OtelTracer(app, tracer, counts, tracer_provider))
    app.on("archive.*", name="headrace.otel")(counts.retention_run)


def uninstrument(app: Headrace) -> None:
    """Stop tracing; open spans still end."""
    app.trace(None)


def context_of(job: Job[Any]) -> Context:
    """The context the job was enqueued in, for your own spans; empty if that was not traced."""
    return otel_context(trace_context_of(job.row.metadata))

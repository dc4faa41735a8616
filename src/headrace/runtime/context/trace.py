"""The current trace context: jobs enqueued here inherit it, and log lines show it.

It is the context of the job that runs here, unless code has begun another one: `app.correlation(...)`, the enqueueing
of a flow, a tracer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from msgspec import structs

from headrace.core.tasks.options import check_text
from headrace.core.tasks.trace_context import LONGEST, NO_TRACE_CONTEXT, TraceContext, marked
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.context.current_job import current

ambient: ContextVar[TraceContext | None] = ContextVar("headrace_trail", default=None)


def present() -> TraceContext | None:
    """The current trace context, if any."""
    trace_context, job = ambient.get(), current.get(None)
    if job is None or (trace_context is not None and trace_context.correlation is not None):
        return trace_context
    return structs.replace(trace_context or NO_TRACE_CONTEXT, correlation=job.correlation_id)


def mark(metadata: str | None, *, has_dependencies: bool = False) -> str | None:
    """The metadata of a job enqueued here. Without a context this costs two checks."""
    if ambient.get() is None and current.get(None) is None:
        return metadata
    trace_context = present() or NO_TRACE_CONTEXT
    return marked(
        metadata,
        structs.replace(trace_context, has_dependencies=True)
        if has_dependencies and trace_context.traceparent
        else trace_context,
    )


@contextmanager
def following(trace_context: TraceContext) -> Iterator[None]:
    """Inside a `with`, this is the current trace context."""
    token = ambient.set(trace_context)
    try:
        yield
    finally:
        ambient.reset(token)


def correlated(correlation: str) -> AbstractContextManager[None]:
    """Inside a `with`, everything has this correlation id."""
    if not 1 <= len(check_text("correlation", correlation)) <= LONGEST:
        raise InvalidJob(
            f"correlation: expected 1 to {LONGEST} characters, got {short(correlation)}", value=correlation
        )
    return following(structs.replace(ambient.get() or NO_TRACE_CONTEXT, correlation=correlation))


def with_shared_correlation(name: str) -> AbstractContextManager[None]:
    """Inside a `with`, enqueued jobs share one correlation id: the current one, or else `name`."""
    trace_context = present() or NO_TRACE_CONTEXT
    return following(
        structs.replace(
            trace_context,
            correlation=trace_context.correlation or name,
            has_dependencies=trace_context.traceparent is not None,
        )
    )

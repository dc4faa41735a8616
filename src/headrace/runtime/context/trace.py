"""The trail that is followed here and now: what jobs that are enqueued here inherit, and lines that are logged tell.

It is the one of the job that runs here, unless somebody has begun another one: `app.correlation(...)`, a flow that is
enqueued, a tracer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from msgspec import structs

from headrace.core.tasks.options import check_text
from headrace.core.tasks.trace_context import LONGEST, NO_TRAIL, TraceContext, marked
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.context.current_job import current

ambient: ContextVar[TraceContext | None] = ContextVar("headrace_trail", default=None)


def present() -> TraceContext | None:
    """The trail that is followed here, if any."""
    trail, job = ambient.get(), current.get(None)
    if job is None or (trail is not None and trail.correlation is not None):
        return trail
    return structs.replace(trail or NO_TRAIL, correlation=job.correlation_id)


def mark(metadata: str | None, *, kin: bool = False) -> str | None:
    """The metadata of a job that is enqueued here. Outside of jobs, and of all else, this is two questions."""
    if ambient.get() is None and current.get(None) is None:
        return metadata
    trail = present() or NO_TRAIL
    return marked(metadata, structs.replace(trail, kin=True) if kin and trail.traceparent else trail)


@contextmanager
def following(trail: TraceContext) -> Iterator[None]:
    """Inside a `with`, this trail is followed."""
    token = ambient.set(trail)
    try:
        yield
    finally:
        ambient.reset(token)


def correlated(correlation: str) -> AbstractContextManager[None]:
    """Inside a `with`, whatever happens goes back to this cause."""
    if not 1 <= len(check_text("correlation", correlation)) <= LONGEST:
        raise InvalidJob(
            f"correlation: expected 1 to {LONGEST} characters, got {short(correlation)}", value=correlation
        )
    return following(structs.replace(ambient.get() or NO_TRAIL, correlation=correlation))


def as_family(name: str) -> AbstractContextManager[None]:
    """Inside a `with`, jobs that are enqueued belong together: they go back to one cause, if to no other then this."""
    trail = present() or NO_TRAIL
    return following(structs.replace(trail, correlation=trail.correlation or name, kin=trail.traceparent is not None))

"""Calls a tracer for attempts. If the tracer fails, its spans are lost and an error is logged; no job is lost.

Apart from `tracing`, because logging is slow to import and a process that only enqueues does not need it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from headrace.core.jobs.records import Claim, Outcome
from headrace.runtime.jobs.tracing import Traced, Tracer

log = logging.getLogger("headrace.tracing")


def begin_span(tracer: Tracer, claim: Claim, log_line: Callable[..., None]) -> Traced | None:
    """Begin the trace of an attempt."""
    try:
        return tracer.begin(claim, log_line)
    except Exception:
        log.exception("job %s: the tracer failed; this attempt is not traced", claim.id)
        return None


def link_predecessors(trace: Traced) -> None:
    """Link the attempt to its predecessors."""
    try:
        trace.link_predecessors()
    except Exception:
        log.exception("the tracer failed; an attempt is not linked to those before it")


def end_span(trace: Traced, outcome: Outcome | None) -> None:
    """End the trace of an attempt."""
    try:
        trace.end(outcome)
    except Exception:
        log.exception("the tracer failed; the end of an attempt is not traced")

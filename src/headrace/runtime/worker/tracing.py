"""Has attempts followed by a tracer that may stumble: then its spans are lost, which is told, and no job is.

Apart from `tracing`, for logging takes its time to load, and whoever only enqueues has no need of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from headrace.core.jobs.records import Claim, Outcome
from headrace.runtime.jobs.tracing import Traced, Tracer

log = logging.getLogger("headrace.tracing")


def begun(tracer: Tracer, claim: Claim, log_line: Callable[..., None]) -> Traced | None:
    """The attempt as the tracer follows it."""
    try:
        return tracer.begin(claim, log_line)
    except Exception:
        log.exception("job %s: the tracer failed; it is not traced", claim.id)
        return None


def looked_back(trace: Traced) -> None:
    """Have the attempt linked to what came before it."""
    try:
        trace.look_back()
    except Exception:
        log.exception("the tracer failed; an attempt is not linked to those before it")


def ended(trace: Traced, outcome: Outcome | None) -> None:
    """Have the attempt told to be over."""
    try:
        trace.end(outcome)
    except Exception:
        log.exception("the tracer failed; the end of an attempt is not told")

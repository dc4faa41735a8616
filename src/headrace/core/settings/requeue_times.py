"""When workers requeue the jobs of dead letters by themselves, if their settings say so."""

from __future__ import annotations

from headrace.core.clock import to_ms
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.settings.settings import Settings


def next_requeue_at(letter: DeadLetterRow, settings: Settings) -> int | None:
    """When a worker with these settings requeues it by itself; None if none does."""
    after = settings.dead_requeue_after
    if after is None or letter.status != "pending" or letter.requeues >= settings.dead_requeue_limit:
        return None
    return letter.entered_at + to_ms(requeued_after(settings, after, letter.requeues))


def requeued_after(settings: Settings, after: float, requeues: int) -> float:
    """How many seconds the record of a job waits that was requeued so often: with each requeue a multiple."""
    return after * settings.dead_requeue_factor**requeues

"""When workers requeue dead letters automatically, by their settings."""

from __future__ import annotations

from headrace.core.clock import to_ms
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.settings.settings import Settings


def next_requeue_at(dead_letter: DeadLetterRow, settings: Settings) -> int | None:
    """When a worker with these settings requeues it automatically; None if none does."""
    after = settings.dead_requeue_after
    if after is None or dead_letter.status != "pending" or dead_letter.requeues >= settings.dead_requeue_limit:
        return None
    return dead_letter.entered_at + to_ms(requeued_after(settings, after, dead_letter.requeues))


def requeued_after(settings: Settings, after: float, requeues: int) -> float:
    """How many seconds a dead letter waits after so many requeues: each one multiplies the time."""
    return after * settings.dead_requeue_factor**requeues

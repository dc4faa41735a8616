"""Queues: what is in them, and their rules."""

from __future__ import annotations

from headrace.app.queues import QueueStats
from headrace.web.api.table import Table
from headrace.web.guard import Visit

table = Table("queues", "Queues, what is in them, and their rules.")


@table.get("/queues")
def find(visit: Visit) -> list[QueueStats]:
    """Every queue with its counts, by name."""
    return visit.app.queues()


@table.get("/queues/{queue}")
def get(visit: Visit, queue: str) -> QueueStats:
    """One queue with its counts and rules; a queue that was never used has none."""
    return visit.app.queue(queue).stats()


@table.post("/queues/{queue}/pause")
def pause(visit: Visit, queue: str) -> QueueStats:
    """Let no worker take jobs from a queue; those that run go on."""
    visit.app.queue(queue).pause()
    return visit.app.queue(queue).stats()


@table.post("/queues/{queue}/resume")
def resume(visit: Visit, queue: str) -> QueueStats:
    """Let workers take jobs from a queue again."""
    visit.app.queue(queue).resume()
    return visit.app.queue(queue).stats()

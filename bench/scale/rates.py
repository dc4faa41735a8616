"""The rates that are read at a step, and what they are called."""

from __future__ import annotations

Rates = dict[str, float]

TITLES = {
    "drain": "drain, jobs/s",
    "cost": "processor time of a drained job, µs",
    "enqueue": "enqueue_many(), jobs/s",
    "p50": "enqueue to start, p50, ms",
    "size": "size, MB",
    "fire": "schedules fired/s",
    "create": "schedules created/s",
    "others": "used by others, % of the processors",
}
TIMES = frozenset({"p50", "cost"})
SIZES = frozenset({"size"})
DISTURBANCES = frozenset({"others"})  # not drawn

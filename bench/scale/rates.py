"""The rates that are read at a step, and what they are called."""

from __future__ import annotations

Rates = dict[str, float]

TITLES = {
    "enqueue": "enqueue_many(), jobs/s",
    "drain": "drain, jobs/s",
    "p50": "enqueue to start, p50, ms",
    "size": "size, MB",
    "fire": "schedules fired/s",
    "create": "schedules created/s",
    "cost": "processor time of a drained job, store included, µs",
    "others": "the machine's processors used by others, %",
}
TIMES = frozenset({"p50", "cost"})
SIZES = frozenset({"size"})
DISTURBANCES = frozenset({"others"})
UNDRAWN = frozenset({"cost", "others"})

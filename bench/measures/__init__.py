"""Every measure, in the order it is taken and printed."""

from __future__ import annotations

from bench.measure import Measure
from bench.measures import depth, drain, enqueue, idle, imports, latency, processes

ALL: tuple[Measure, ...] = (
    enqueue.MEASURE,
    drain.MEASURE,
    processes.MEASURE,
    latency.MEASURE,
    idle.MEASURE,
    depth.MEASURE,
    imports.MEASURE,
)

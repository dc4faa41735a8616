"""How fast one worker process gets through no-op jobs."""

from __future__ import annotations

from bench import draining
from bench.board import Score
from bench.child import Timed, time_in_child
from bench.ground import Ground
from bench.measure import Figure, Goal, Measure, Ratio, Readings

_BATCH = 500


def drain(ground: Ground) -> Readings:
    """No-op jobs through one worker process, with results and records: what a job costs beyond its own work.

    The bare engine claims and completes in batches and runs nothing, so the ratio to it shows the runtime's share.
    The processor time a job takes in the worker is given beside the rate: it hardly changes when something else keeps
    the machine busy.
    """
    runs: dict[str, Timed | Score] = {
        "bare": _bare(ground),
        "threads": _headrace(ground, "noop", draining.CONCURRENCY),
        "loop": _headrace(ground, "noop_async", draining.CONCURRENCY),
        "wide loop": _headrace(ground, "noop_async", draining.MANY_AT_ONCE),
    }
    efforts = {f"{name} effort": run.effort for name, run in runs.items()}
    return {name: run.rate for name, run in runs.items()} | efforts


def _headrace(ground: Ground, task: str, concurrency: int) -> Score:
    with ground.store() as store:
        draining.fill(store, ground.sizes.jobs, lambda subject: getattr(subject, task))
        return draining.drain(ground, store, ground.sizes.jobs, concurrency=concurrency)


def _bare(ground: Ground) -> Timed:
    with ground.store() as store:
        draining.fill(store, ground.sizes.jobs, lambda subject: subject.noop)
        return time_in_child(ground, store, "bare", "drain", ground.sizes.jobs, _BATCH)


MEASURE = Measure(
    "drain",
    drain,
    (
        Figure("bare", "bare engine, batches of 500"),
        Figure("threads", "def, concurrency 4"),
        Figure("loop", "async def, concurrency 4"),
        Figure("wide loop", "async def, concurrency 64"),
        Figure("bare effort", "processor time a job, bare engine", "µs"),
        Figure("threads effort", "processor time a job, def", "µs"),
        Figure("wide loop effort", "processor time a job, async def (64)", "µs"),
    ),
    (
        Ratio("threads", "bare", "def / bare engine", Goal("at least", 0.5)),
        Ratio("wide loop", "bare", "async def (64) / bare engine", Goal("at least", 0.5)),
    ),
)

"""How fast one worker process gets through no-op jobs."""

from __future__ import annotations

from bench import draining
from bench.board import Score
from bench.child import Timed, time_in_child
from bench.measure import Figure, Goal, Ground, Measure, Ratio, Readings
from bench.peer import open_peer
from bench.tasks import filled

_BATCH = 500
_MANY_AT_ONCE = 64


def drain(ground: Ground) -> Readings:
    """No-op jobs through one worker process, with results and records: what a job costs beyond its own work.

    The bare engine claims and completes in batches and runs nothing, so the ratio to it shows the runtime's share.
    huey runs the same function with one worker thread, keeps the result, and forgets the job; once with the
    durability of this run, and once as it comes, with a sync to the disk for each commit. The processor time a job
    takes is given beside the rate: it hardly changes when something else keeps the machine busy.
    """
    jobs, durability = ground.sizes.peer_jobs, ground.durability
    runs: dict[str, Timed | Score] = {
        "bare": _bare(ground),
        "threads": _headrace(ground, "noop", draining.CONCURRENCY),
        "huey": _huey(ground, jobs, durability),
        "loop": _headrace(ground, "noop_async", draining.CONCURRENCY),
        "wide loop": _headrace(ground, "noop_async", _MANY_AT_ONCE),
        "huey as it comes": _huey(ground, jobs // 4, "full"),
    }
    efforts = {f"{name} effort": run.effort for name, run in runs.items()}
    return {name: run.rate for name, run in runs.items()} | efforts


def _headrace(ground: Ground, task: str, concurrency: int) -> Score:
    with ground.store() as path:
        filled(path, ground.durability, ground.sizes.jobs, lambda subject: getattr(subject, task))
        return draining.drain(ground, path, ground.sizes.jobs, concurrency=concurrency)


def _bare(ground: Ground) -> Timed:
    with ground.store() as path:
        filled(path, ground.durability, ground.sizes.jobs, lambda subject: subject.noop)
        return time_in_child(ground, "bare", "drain", path, ground.durability, ground.sizes.jobs, _BATCH)


def _huey(ground: Ground, jobs: int, durability: str) -> Timed:
    with ground.store() as path:
        with open_peer(path, durability) as peer:
            peer.fill(jobs)
        timed = time_in_child(ground, "huey_side", "drain", path, durability, jobs)
        with open_peer(path, durability) as peer:
            kept = peer.huey.storage.result_store_size()
        if kept != jobs:
            raise AssertionError(f"huey kept {kept} results of {jobs} jobs: the comparison would not be fair")
        return timed


MEASURE = Measure(
    "drain",
    drain,
    (
        Figure("bare", "bare engine, batches of 500"),
        Figure("threads", "def, concurrency 4"),
        Figure("loop", "async def, concurrency 4"),
        Figure("wide loop", "async def, concurrency 64"),
        Figure("huey", "huey, same durability"),
        Figure("huey as it comes", "huey, as it comes"),
        Figure("bare effort", "processor time a job, bare engine", "µs"),
        Figure("threads effort", "processor time a job, def", "µs"),
        Figure("wide loop effort", "processor time a job, async def (64)", "µs"),
        Figure("huey effort", "processor time a job, huey", "µs"),
    ),
    (
        Ratio("threads", "bare", "def / bare engine", Goal("at least", 0.5)),
        Ratio("wide loop", "bare", "async def (64) / bare engine", Goal("at least", 0.5)),
        Ratio("threads", "huey", "def / huey, same durability", Goal("at least", 10)),
        Ratio("threads", "huey as it comes", "def / huey, as it comes"),
        Ratio("wide loop", "huey", "async def (64) / huey, same durability", Goal("at least", 10)),
    ),
)

"""How fast one worker process gets through no-op jobs."""

from __future__ import annotations

from bench import draining
from bench.child import time_in_child
from bench.measure import Figure, Goal, Ground, Measure, Ratio, Readings
from bench.peer import open_peer
from bench.tasks import filled

_BATCH = 500
_MANY_AT_ONCE = 64


def drain(ground: Ground) -> Readings:
    """No-op jobs through one worker process, with results and records: what a job costs beyond its own work.

    The bare engine claims and completes in batches and runs nothing, so the ratio to it shows the runtime's share.
    huey runs the same function with one worker thread, keeps the result, and forgets the job; once with the
    durability of this run, and once as it comes, with a sync to the disk for each commit.
    """
    return {
        "bare": _bare(ground),
        "threads": _headrace(ground, "noop", draining.CONCURRENCY),
        "huey": _huey(ground, ground.sizes.peer_jobs, ground.durability),
        "loop": _headrace(ground, "noop_async", draining.CONCURRENCY),
        "wide loop": _headrace(ground, "noop_async", _MANY_AT_ONCE),
        "huey as it comes": _huey(ground, ground.sizes.peer_jobs // 4, "full"),
    }


def _headrace(ground: Ground, task: str, concurrency: int) -> float:
    with ground.store() as path:
        filled(path, ground.durability, ground.sizes.jobs, lambda subject: getattr(subject, task))
        return draining.drain(ground, path, ground.sizes.jobs, concurrency=concurrency).rate


def _bare(ground: Ground) -> float:
    with ground.store() as path:
        filled(path, ground.durability, ground.sizes.jobs, lambda subject: subject.noop)
        return time_in_child(ground, "bare", "drain", path, ground.durability, ground.sizes.jobs, _BATCH).rate


def _huey(ground: Ground, jobs: int, durability: str) -> float:
    with ground.store() as path:
        with open_peer(path, durability) as peer:
            peer.fill(jobs)
        timed = time_in_child(ground, "huey_side", "drain", path, durability, jobs)
        with open_peer(path, durability) as peer:
            kept = peer.huey.storage.result_store_size()
        if kept != jobs:
            raise AssertionError(f"huey kept {kept} results of {jobs} jobs: the comparison would not be fair")
        return timed.rate


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
    ),
    (
        Ratio("threads", "bare", "def / bare engine", Goal("at least", 0.5)),
        Ratio("wide loop", "bare", "async def (64) / bare engine", Goal("at least", 0.5)),
        Ratio("threads", "huey", "def / huey, same durability", Goal("at least", 10)),
        Ratio("threads", "huey as it comes", "def / huey, as it comes"),
        Ratio("wide loop", "huey", "async def (64) / huey, same durability", Goal("at least", 10)),
    ),
)

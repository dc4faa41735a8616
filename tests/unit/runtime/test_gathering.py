"""Which attempts a worker holds for a batch, and which it starts at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from headrace.core.clock import SystemClock
from headrace.core.jobs.records import Claim
from headrace.core.tasks.batches import BatchLimits
from headrace.runtime.context.worker_link import WorkerLink
from headrace.runtime.worker.attempt import Attempt
from headrace.runtime.worker.execution import RunSpec
from headrace.runtime.worker.gathering import Gathering
from headrace.runtime.worker.state import WorkerState


def attempts(*crashes: int) -> list[Attempt]:
    clock = SystemClock()
    worker_state = WorkerState(2, clock, lambda: None, cast(WorkerLink, SimpleNamespace(now=clock.now)))
    made = worker_state.claimed(
        [
            Claim(f"job{n}", n, "task", "default", 0, 5, 1, 4, "{}", 0, 0, 0, crashed, 0, None, None)
            for n, crashed in enumerate(crashes)
        ]
    )
    for attempt in made:
        attempt.plan = cast(RunSpec, SimpleNamespace(timeout=None, batch=BatchLimits(3, 60.0)))
    return made


def sizes(ready: list[Attempt]) -> list[list[str]]:
    return [[each.claim.id for each in attempt.together] for attempt in ready]


def test_a_full_batch_runs_and_the_rest_waits() -> None:
    gathering = Gathering()
    assert sizes(gathering.add(attempts(0, 0, 0, 0))) == [["job0", "job1", "job2"]]
    assert len(gathering) == 1
    assert sizes(gathering.due(all_of_them=True)) == [["job3"]]


def test_a_job_whose_worker_died_runs_alone() -> None:
    """Else one that kills its worker again would cost the others of its batch their attempts, too."""
    gathering = Gathering()
    assert sizes(gathering.add(attempts(0, 1, 0, 2))) == [["job1"], ["job3"]]
    assert gathering.is_used
    assert sizes(gathering.due(all_of_them=True)) == [["job0", "job2"]]

"""The finding about pending jobs that need a capability which no live worker has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headrace.core.damaged_records import items_of
from headrace.core.health.findings import Finding
from headrace.core.jobs.records import WorkerRow
from headrace.core.queues.limits import is_equipped, needs_of
from headrace.core.text import counted

# A lane of pending jobs: queue, lane, how many, the id of one.
NeedyLane = tuple[str, str, int, str]


def needs_findings(lanes: Iterable[NeedyLane], workers: Sequence[WorkerRow], now: int) -> Iterator[Finding]:
    """One finding per queue and missing capabilities, with the number of jobs and an example."""
    waiting: dict[tuple[str, frozenset[str]], tuple[int, str]] = {}
    for queue, lane, jobs, example in sorted(lanes):
        if needs := needs_of(lane):
            others, first = waiting.get((queue, needs), (0, example))
            waiting[queue, needs] = others + jobs, first
    alive = [worker for worker in workers if not worker.is_silent(now)]
    for (queue, needs), (jobs, example) in waiting.items():
        serving = (items_of(worker.capabilities, list) for worker in alive if worker.serves(queue))
        if not any(is_equipped(capabilities, needs) for capabilities in serving):
            names = sorted(needs)
            yield Finding(
                code="needs_unmet",
                sentence=f"no live worker of queue {queue!r} has {' and '.join(names)}, which "
                f"{counted(jobs, 'pending job needs', 'pending jobs need')} (such as {example})",
                advice=f"start one with `headrace worker -q {queue} --needs {','.join(names)}`",
                count=jobs,
            )

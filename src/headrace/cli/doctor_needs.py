"""What the doctor finds about jobs that wait for a worker with something that none has."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.app.app import Headrace
from headrace.core.limits import is_equipped, needs_of


def unmet_needs(app: Headrace) -> Iterator[str]:
    """A sentence for each queue and what jobs of it need in vain, with their number and one of them."""
    alive = [worker for worker in app.workers() if not worker.silent]
    waiting: dict[tuple[str, frozenset[str]], tuple[int, str]] = {}
    for queue, lane, jobs, example in app.engine.desk.needing():
        kind = queue, needs_of(lane)
        others, first = waiting.get(kind, (0, example))
        waiting[kind] = others + jobs, first
    for (queue, needs), (jobs, example) in waiting.items():
        serving = [worker for worker in alive if not worker.queues or queue in worker.queues]
        if not any(is_equipped(worker.capabilities, needs) for worker in serving):
            names = sorted(needs)
            yield (
                f"no live worker of queue {queue!r} has {' and '.join(names)}, which {_count(jobs)} there (such as "
                f"{example}); start one with `headrace worker -q {queue} --needs {','.join(names)}`"
            )


def _count(jobs: int) -> str:
    return "1 pending job needs" if jobs == 1 else f"{jobs} pending jobs need"

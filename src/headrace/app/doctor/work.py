"""Findings about pending jobs without a worker that serves their queue and knows their task, and open breakers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from headrace.app.app import Headrace
from headrace.app.workers import WorkerInfo
from headrace.core.clock import instant_ms
from headrace.core.durations import span_text
from headrace.core.health.findings import Finding
from headrace.core.jobs.states import State

_CHECKED = 1000


def findings(app: Headrace, alive: Sequence[WorkerInfo]) -> Iterator[Finding]:
    yield from _of_queues(app)
    yield from _of_tasks(app, alive)
    yield from _of_breakers(app)


def _of_queues(app: Headrace) -> Iterator[Finding]:
    for stats in app.queues():
        if stats.pending and not stats.workers:
            yield Finding(
                code="queue_unserved",
                sentence=f"queue {stats.queue!r} has {_jobs(stats.pending)} and no live worker",
                advice=f"start one with `headrace worker -q {stats.queue}`",
                count=stats.pending,
            )
        if stats.paused:
            yield Finding(
                code="queue_paused",
                sentence=f"queue {stats.queue!r} is paused, with {_jobs(stats.pending)}",
                advice=f"resume it with `headrace queues resume {stats.queue}`",
                count=stats.pending,
                note=True,
            )


def _jobs(pending: int) -> str:
    return "1 pending job" if pending == 1 else f"{pending} pending jobs"


def _of_tasks(app: Headrace, alive: Sequence[WorkerInfo]) -> Iterator[Finding]:
    """One finding per task that no worker of its queue knows, among the newest pending jobs."""
    waiting = {(job.queue, job.task): job for job in app.jobs.find(state=State.PENDING, limit=_CHECKED)}
    for (queue, task), job in sorted(waiting.items()):
        serving = [worker for worker in alive if not worker.queues or queue in worker.queues]
        if serving and not any(worker.knows(task) for worker in serving):
            yield Finding(
                code="task_unknown",
                sentence=f"no live worker of queue {queue!r} knows task {task!r} of pending jobs such as {job.id}",
                advice="deploy a worker that registers it",
            )


def _of_breakers(app: Headrace) -> Iterator[Finding]:
    """A note for each open breaker: the fault is one of the service behind it."""
    for one in app.breakers.list():
        if one.state == "open" and one.open_until is not None:
            wait = span_text(instant_ms(one.open_until) - app.clock.now())
            yield Finding(
                code="breaker_open",
                sentence=f"breaker {one.name!r} is {one.summary}",
                advice=f"its next try is in {wait}; close it with `headrace breakers reset {shlex.quote(one.name)}`",
                count=one.failures,
                note=True,
            )

"""Preemption: which run gives its slot to a more urgent job. Only runs of preemptible tasks do.

The worker ends the run and releases its job without spending an attempt; the job starts again from its beginning. A job
that is held back by a rule preempts nothing: it might have to wait for long.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from headrace.core.jobs import outcomes
from headrace.core.jobs.queue_rules import QueueRow, queue_rules
from headrace.core.jobs.records import JobRow
from headrace.engines.protocol.maintenance import StoreView
from headrace.runtime.worker.attempt import Attempt
from headrace.runtime.worker.heartbeat import end_run
from headrace.runtime.worker.runners.threads import Threads
from headrace.runtime.worker.state import WorkerState

log = logging.getLogger("headrace.worker")


def run_to_preempt(
    worker_state: WorkerState, store: StoreView, queues: Collection[str] | None
) -> tuple[Attempt, JobRow] | None:
    """The run to end, the least urgent and then the youngest, and the job that waits for its slot."""
    preemptible = [run for run in worker_state.started() if run.plan.preemptible]
    if not preemptible or worker_state.waiting or worker_state.running < worker_state.concurrency:
        return None
    queue_rows, task_rows = store.queries.rules()
    ruled = {task.name for task in task_rows}
    run = min(preemptible, key=lambda run: (run.claim.priority, -run.started))
    for queue in queue_rows:
        if (queues is None or queue.name in queues) and _is_free(queue):
            first = store.queries.peek(queue.name, 1, light=True)
            if first and not first[0].lane and first[0].task not in ruled and first[0].priority > run.claim.priority:
                return run, first[0]
    return None


def _is_free(queue: QueueRow) -> bool:
    return not queue.paused and not queue_rules(queue.rules).shape_claims


def preempt(worker_state: WorkerState, threads: Threads, run: Attempt, urgent: JobRow) -> str:
    """End the run for the job that waits for its slot; returns the queue to claim from next."""
    log.info("job %s is preempted by the more urgent job %s", run.claim.id, urgent.id, extra=run.about)
    outcome = outcomes.release(run.claim, f"made way for the more urgent {urgent.id}", worker_state.now())
    end_run(worker_state, threads, run, outcome, "a more urgent job needs its slot")
    return urgent.queue

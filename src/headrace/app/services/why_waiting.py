"""Why a job waits for other jobs, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.jobs.dependencies import HELD, PARENT_FAILED, PARENTS_COMPLETED, Dependency
from headrace.core.jobs.explanation import Explanation, Remedy
from headrace.core.jobs.history_texts import is_cancel_request
from headrace.core.jobs.records import Filter, JobRow
from headrace.core.jobs.states import FINAL, State
from headrace.engines.protocol.maintenance import StoreView
from headrace.runtime.submit.dependencies import rows_of

_MOST_RUNNING = 1000  # to look through


def explain_waiting(row: JobRow, store: StoreView) -> Explanation:
    """The explanation for a job that is waiting."""
    edges = [edge for edge in store.flow_store.edges([row.id]) if edge.child == row.id]
    rows = rows_of(store.queries, [edge.parent for edge in edges if edge.blocks])
    parents = sorted(rows.values(), key=lambda parent: parent.seq)
    ended = [parent for parent in parents if parent.state in FINAL]
    if row.reason == HELD and ended:
        return _held(row, ended)
    left = [parent for parent in parents if parent.state not in FINAL]
    if not left:
        command = f"headrace jobs promote {row.id}"
        remedy = Remedy(verb="promote_job", target=row.id, words="run it with", command=command)
        return Explanation("It waits, but all its parents have finished.", remedy)
    subject = "Its own run has ended, and it" if row.finished_at is not None else "It"
    only = row.finished_at is None and any(edge.policy == "only" for edge in edges)
    condition = " It runs only if a job that it waits for fails or is cancelled." if only else ""
    return Explanation(f"{subject} waits for {_which(left, edges)}.{condition}")


def explain_behind(row: JobRow, store: StoreView) -> Explanation:
    """The explanation for a job that starts after the running one with its unique key."""
    running = store.queries.find(Filter(states=(State.RUNNING,)), _MOST_RUNNING, light=True).jobs
    first = next((other for other in running if other.unique_key == row.unique_key), None)
    if first is None:
        return Explanation("It waits for a running job with the same unique key.")
    asked = " and was asked to stop" if is_cancel_request(first.reason) else ""
    return Explanation(
        f"It waits for job {first.id} (task {first.task}) with the same unique key, which is running{asked}."
    )


def explain_end(row: JobRow, store: StoreView) -> str:
    """A second sentence for a job that was cancelled because of its parents, if there is more to say."""
    if row.reason == PARENTS_COMPLETED:
        return " It was to run only if a job that it waited for failed, and all of them completed."
    if row.reason != PARENT_FAILED:
        return ""
    rows = rows_of(
        store.queries,
        [edge.parent for edge in store.flow_store.edges([row.id]) if edge.child == row.id and edge.blocks],
    )
    ended = [parent for parent in rows.values() if parent.state in FINAL]
    if not ended:
        return ""
    parent = min(ended, key=lambda parent: parent.seq)
    return f" Its parent {parent.id} (task {parent.task}) {_how(parent)}; retry that one and this one waits again."


def _how(parent: JobRow) -> str:
    return "failed" if parent.state is State.FAILED else "was cancelled"


def _which(left: Sequence[JobRow], edges: Sequence[Dependency]) -> str:
    first = f"job {left[0].id} (task {left[0].task}), which is {left[0].state}"
    if len(edges) == 1:
        return first
    return f"{len(left)} of {len(edges)} jobs, first {first}"


def _held(row: JobRow, ended: Sequence[JobRow]) -> Explanation:
    parent = ended[0]
    more = f", and {len(ended) - 1} more did not complete" if len(ended) > 1 else ""
    retry = f"headrace jobs retry {parent.id}"
    options = [f"retry the parent with `{retry}`"]
    if row.finished_at is None:  # otherwise it has already run
        options.append(f"run this job without it with `headrace jobs promote {row.id}` (job.promote())")
    return Explanation(
        f"It is held until you decide, because its parent {parent.id} (task {parent.task}) {_how(parent)}{more}: "
        f"{', '.join(options)}, or cancel it with `headrace jobs cancel {row.id}`.",
        Remedy(verb="retry_job", target=parent.id, command=retry),
    )

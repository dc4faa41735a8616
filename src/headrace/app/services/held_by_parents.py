"""Jobs that were cancelled because of how their parents ended, and are not retried alone."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.jobs.dependencies import PARENT_FAILED, PARENTS_COMPLETED, Dependency
from headrace.core.jobs.records import JobRow
from headrace.core.jobs.states import State
from headrace.errors import InvalidJob

BY_PARENTS = (PARENT_FAILED, PARENTS_COMPLETED)


def holds(edge: Dependency, parent: JobRow | None) -> bool:
    """Whether the end of this parent is why the child was cancelled."""
    if parent is None:
        return False
    if edge.policy == "only":
        return parent.state is State.COMPLETED
    return edge.blocks and parent.state in (State.FAILED, State.CANCELLED)


def refuse_without_parent(held: Mapping[str, JobRow]) -> None:
    for job_id, parent in held.items():
        if parent.state is State.COMPLETED:
            raise InvalidJob(
                f"job {job_id} was to run only if its parent {parent.id} (task {parent.task}) failed, and that one "
                "completed; run it all the same with job.retry(without_parents=True)"
            )
        how = "failed" if parent.state is State.FAILED else "was cancelled"
        raise InvalidJob(
            f"job {job_id} was cancelled because its parent {parent.id} (task {parent.task}) {how}; retry that one and "
            "this one runs after it, or run this one alone with job.retry(without_parents=True)"
        )

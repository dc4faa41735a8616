"""Texts of the history that more than one engine writes: what a store decides for itself about a job.

They are stored, and two stores are compared by them. In `%s` stands what is different from job to job.
"""

from __future__ import annotations

from headrace.core.jobs.dependencies import HELD, PARENT_FAILED, PARENTS_COMPLETED
from headrace.core.jobs.steps import AWAITING, OR

EXPIRED = "expired before it started"
UNBLOCKED = "all jobs it waited for have ended"
NOT_NEEDED = "all jobs it waited for completed"
PARENT_ADDED = "it waits for a job that was added"
PARENT_RUNS_AGAIN = "its parent %s is to run again"
WAITS_FOR_CHILDREN = "its own run is over; it waits for %s"
REPLACED = "replaced by a newer call"
RESCHEDULED = "rescheduled by a newer call"
CANCELLED_BY_CALL = "cancelled by a newer call, job %s"  # also the reason; in a running job it is a request
CANCELS_RUNNING = "it runs after job %s, which was asked to stop"
CANCELS_STARTED = "it has cancelled job %s, which had started"
CANCEL_REQUESTED = CANCELLED_BY_CALL.partition("%s")[0]  # how the reason of a running job begins

# By the names that scripts use, with the reasons that they compare.
TEXTS = {
    "EXPIRED": EXPIRED,
    "UNBLOCKED": UNBLOCKED,
    "NOT_NEEDED": NOT_NEEDED,
    "PARENT_ADDED": PARENT_ADDED,
    "PARENT_RUNS_AGAIN": PARENT_RUNS_AGAIN,
    "WAITS_FOR_CHILDREN": WAITS_FOR_CHILDREN,
    "REPLACED": REPLACED,
    "RESCHEDULED": RESCHEDULED,
    "CANCELLED_BY_CALL": CANCELLED_BY_CALL,
    "CANCELS_RUNNING": CANCELS_RUNNING,
    "CANCELS_STARTED": CANCELS_STARTED,
    "CANCEL_REQUESTED": CANCEL_REQUESTED,
    "AWAITING": AWAITING,
    "OR": OR,
    "HELD": HELD,
    "PARENT_FAILED": PARENT_FAILED,
    "PARENTS_COMPLETED": PARENTS_COMPLETED,
}


def is_cancel_request(reason: str | None) -> bool:
    """Whether this reason of a running job says that it is to end for a newer call."""
    return reason is not None and reason.startswith(CANCEL_REQUESTED)

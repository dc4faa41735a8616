"""Dependencies between jobs: the records of flows, and what happens to a job when a parent ends.

A dependency makes a child wait for a parent: the child does not start before the parent has ended. A child that already
runs, or has run, is not completed before. The edge itself records whether it still blocks, so that no query has to read
all parents of a job to know whether the last one has ended.

Dependencies change in the commit that changes the job, whatever the operation:

- The end of a job decides the dependencies on it. A successful job with open children becomes waiting, and completed
  with the end of the last child. To its dependents a deleted job counts as cancelled.
- A revived job waits for its open parents only; finished ones, however they ended, no longer count. Its children wait
  again, also those that only its end had cancelled, and theirs.
- A promoted job waits for no parent. One whose own run is over cannot be promoted.
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from msgspec import Struct

from headrace.core.jobs.states import State

Policy = Literal["cancel", "run", "only", "hold"]
POLICIES: tuple[Policy, ...] = ("cancel", "run", "only", "hold")

PARENT_FAILED = "parent_failed"  # the reason of a job that was cancelled because a parent did not complete
PARENTS_COMPLETED = "parents_completed"  # the reason of a job that was to run only if one of them did not
HELD = "held"  # the reason of a job that is held for a person because of that


DELETED = "deleted"  # the reason of a job just before its deletion
_CANCELLED = {"expired": "expired", DELETED: "was deleted"}


class Dependency(Struct, frozen=True, array_like=True, gc=False):
    """`child` waits for `parent`; both are ids. `policy` applies if the parent does not complete.

    cancel: the child is cancelled. run: it runs, and can see the failure. hold: it waits for a person. only: it runs,
    and is cancelled if all such parents complete.

    A new dependency makes its child wait, also one that exists and has not started. If the parent has finished, it is
    decided at once, as at that parent's end. A finished child, an unknown job and a cycle raise InvalidJob.
    """

    parent: str
    child: str
    policy: Policy = "cancel"
    blocks: bool = True


class FlowRow(Struct, frozen=True, array_like=True):
    """Jobs that were created together. Their outcome is in the jobs."""

    id: str
    name: str
    created_at: int


class FlowSummary(Struct, frozen=True, array_like=True):
    """A flow and the number of its jobs in each state."""

    flow: FlowRow
    jobs: dict[str, int]


def parent_end_text(task: str, parent_id: str, state: State, reason: str | None) -> str:
    """Why a child was cancelled or is held, for its history."""
    how = "failed" if state is State.FAILED else _CANCELLED.get(reason or "", "was cancelled")
    return f"its parent {parent_id} ({task}) {how}"


def find_cycle(edges: Iterable[tuple[str, str]]) -> list[str] | None:
    """A cycle among these pairs of parent and child, from a job to itself; None if there is none."""
    graph: dict[str, set[str]] = {}
    for parent, child in edges:
        graph.setdefault(child, set()).add(parent)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        path: list[str] = error.args[1]
        return path
    return None

"""Which jobs wait for which: the records of flows, and what becomes of a job when one that it waits for ends.

A bond ties a child to a parent: the child does not start before the parent has ended. A child that runs already, or
has run, is not completed before. Whether a bond still blocks is kept with it, so that nobody has to look at all of a
job's parents to know whether the last one has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from msgspec import Struct

from headrace.core.jobs.states import State

Policy = Literal["cancel", "run", "hold"]
POLICIES: tuple[Policy, ...] = ("cancel", "run", "hold")

PARENT_FAILED = "parent_failed"  # the reason of a job that was cancelled because a parent did not complete
HELD = "held"  # the reason of a job that waits for a person because of that


DELETED = "deleted"  # the reason of a job in the moment before it is gone
_CANCELLED = {"expired": "expired", DELETED: "was deleted"}


class Dependency(Struct, frozen=True, array_like=True, gc=False):
    """`child` waits for `parent`; both are ids. `policy` tells what becomes of it if the parent does not complete.

    cancel: the child is cancelled. run: it runs, and can see the failure. hold: it waits for a person.
    """

    parent: str
    child: str
    policy: Policy = "cancel"
    blocks: bool = True


class FlowRow(Struct, frozen=True, array_like=True):
    """Jobs that were made together. What became of them is told by the jobs."""

    id: str
    name: str
    created_at: int


class FlowSummary(Struct, frozen=True, array_like=True):
    """A flow and how many of its jobs are in each state that any of them is in."""

    flow: FlowRow
    jobs: dict[str, int]


def verdict_in_words(task: str, parent_id: str, state: State, reason: str | None) -> str:
    """Why a child was cancelled or is held, for its history."""
    how = "failed" if state is State.FAILED else _CANCELLED.get(reason or "", "was cancelled")
    return f"its parent {parent_id} ({task}) {how}"


def circle_in(edges: Iterable[tuple[str, str]]) -> list[str] | None:
    """A circle among these pairs of parent and child, from a job to itself; None if there is none."""
    graph: dict[str, set[str]] = {}
    for parent, child in edges:
        graph.setdefault(child, set()).add(parent)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        path: list[str] = error.args[1]
        return path
    return None

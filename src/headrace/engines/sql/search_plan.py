"""Decides by which indexes to find the jobs of a filter.

An index in the order of submission can be walked from the newest job on; without other conditions a page is full after
a few steps. Any other index has an order of its own: its jobs must be read all at once, which is best for few jobs and
useless for many. So each filter has one walk, and sets that may turn out to be small.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State

Walk = Literal["number", "tag", "flow", "failed", "cancelled", "id"]
_WALKS_OF_STATES: dict[tuple[State, ...], Walk] = {(State.FAILED,): "failed", (State.CANCELLED,): "cancelled"}
_ALL = Filter()
_LOOKUP_COST = 4  # times as expensive as reading the next row


class IndexSource(Struct, frozen=True):
    """Jobs in one index: the name of the fragment that selects their numbers, for this final state.

    `is_exact` if all of them match, as far as state and queue go.
    """

    name: str
    state: State | None = None
    is_exact: bool = True


class SearchPlan(Struct, frozen=True):
    """How to find the jobs of a filter.

    `walk` is the index to walk, and `left` the conditions left to check on each job. `sets` are alternatives, each a
    group of sources that together hold all matching jobs; a set is better than the walk if it is small.
    """

    walk: Walk
    left: Filter
    sets: tuple[tuple[IndexSource, ...], ...] = ()

    @property
    def is_straight(self) -> bool:
        """Whether every job on the walk matches."""
        return self.left == _ALL


def plan_of(which: Filter) -> SearchPlan:
    """The search plan of the filter."""
    if which.ids:
        return SearchPlan("id", replace(which, ids=()))
    walk, left = _walk_of(which)
    return SearchPlan(walk, left, () if left == _ALL else tuple(_sets_of(which)))


def scan_limit_of(walk: Walk, reach: int) -> int:
    """How many jobs to read in the time of `reach` adjacent ones: other indexes look each job up."""
    return reach if walk == "number" else max(reach // _LOOKUP_COST, 1)


def has_only_states_and_queue(which: Filter) -> bool:
    """Whether the filter has only states and a queue, which indexes cover completely."""
    return which != _ALL and replace(which, states=(), queue=None) == _ALL


def indexes_of_states(which: Filter) -> tuple[IndexSource, ...]:
    """The indexes that hold all jobs of these states in this queue, each job in one of them."""
    suffix = "" if which.queue is None else "_of_queue"
    wanted = [state for state in State if state in which.states or not which.states]
    due = {State.SCHEDULED, State.RETRYING}
    sources = []
    for state in wanted:
        if state in (State.PENDING, State.WAITING):
            sources.append(IndexSource(f"{state.value}{suffix}"))
        elif state is State.RUNNING:
            sources.append(IndexSource("running", is_exact=not suffix))
        elif state not in due:
            sources.append(
                IndexSource(f"finished{suffix}", state)
                if suffix or state is State.COMPLETED
                else IndexSource(state.value)
            )
    if due & {*wanted}:
        sources.append(IndexSource("due", is_exact=not suffix and due <= {*wanted}))
    return tuple(sources)


def _walk_of(which: Filter) -> tuple[Walk, Filter]:
    if which.flow is not None:
        return "flow", replace(which, flow=None)
    if which.tag is not None:
        return "tag", replace(which, tag=None)
    if walk := _WALKS_OF_STATES.get(which.states):
        return walk, replace(which, states=())
    return "number", which


def _sets_of(which: Filter) -> list[tuple[IndexSource, ...]]:
    """Sets that may be small; flow and tag first, as the most selective ones."""
    sets: list[tuple[IndexSource, ...]] = [
        (IndexSource(name),) for name in ("flow", "tag") if getattr(which, name) is not None
    ]
    if which.states or which.queue is not None:
        sets.append(indexes_of_states(which))
    return sets

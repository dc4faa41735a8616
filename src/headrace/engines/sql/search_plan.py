"""Which way leads to the jobs that a filter means: decided here alone, by what indexes there are.

An index that is in the order of submission can be walked from the newest job on, and a page is full after a few steps
if nothing else is asked for. Any other holds its jobs in an order of its own: they have to be taken all at once, which
is the best way to few of them and none to many. So there is for each filter one walk, and what may turn out to be few.
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
_LOOK_UP = 4  # times as long as to go on to the next one


class IndexSource(Struct, frozen=True):
    """Jobs that an index holds together: the name of the statement that tells their numbers, for this final state.

    `is_exact` if all of them are meant, as far as state and queue go.
    """

    name: str
    state: State | None = None
    is_exact: bool = True


class SearchPlan(Struct, frozen=True):
    """How to come to the jobs of a filter.

    `walk` is the index to go along, and `left` what each job on the way has to be asked for. `sets` are other ways,
    each of them some sources that together hold all the jobs that are meant; it is the better way if they hold few.
    """

    walk: Walk
    left: Filter
    sets: tuple[tuple[IndexSource, ...], ...] = ()

    @property
    def is_straight(self) -> bool:
        """Whether every job on the way is meant."""
        return self.left == _ALL


def lead_of(which: Filter) -> SearchPlan:
    """The way to the jobs that the filter means."""
    if which.ids:
        return SearchPlan("id", replace(which, ids=()))
    walk, left = _walk_of(which)
    return SearchPlan(walk, left, () if left == _ALL else tuple(_sets_of(which)))


def looks_of(walk: Walk, reach: int) -> int:
    """How many jobs to look at in the time of `reach` that lie side by side: others are looked up one by one."""
    return reach if walk == "number" else max(reach // _LOOK_UP, 1)


def is_of_places(which: Filter) -> bool:
    """Whether nothing but states and a queue is asked for, which indexes know of by themselves."""
    return which != _ALL and replace(which, states=(), queue=None) == _ALL


def places_of(which: Filter) -> tuple[IndexSource, ...]:
    """The indexes that hold all jobs of these states in this queue, each job in one of them."""
    of = "" if which.queue is None else "_of_queue"
    wanted = [state for state in State if state in which.states or not which.states]
    due = {State.SCHEDULED, State.RETRYING}
    sources = []
    for state in wanted:
        if state in (State.PENDING, State.WAITING):
            sources.append(IndexSource(f"{state.value}{of}"))
        elif state is State.RUNNING:
            sources.append(IndexSource("running", is_exact=not of))
        elif state not in due:
            sources.append(
                IndexSource(f"finished{of}", state) if of or state is State.COMPLETED else IndexSource(state.value)
            )
    if due & {*wanted}:
        sources.append(IndexSource("due", is_exact=not of and due <= {*wanted}))
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
    """What may turn out to be few; the flow and the tag first, which are told apart from all others."""
    sets: list[tuple[IndexSource, ...]] = [
        (IndexSource(name),) for name in ("flow", "tag") if getattr(which, name) is not None
    ]
    if which.states or which.queue is not None:
        sets.append(places_of(which))
    return sets

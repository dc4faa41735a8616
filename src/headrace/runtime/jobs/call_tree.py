"""Calls one after the other or side by side, as chain() and group() make them, and how they become jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

from msgspec import Struct, structs

from headrace.core.codec.decode import MAX_DEPTH
from headrace.core.queues.limits import Limit
from headrace.errors import InvalidJob
from headrace.runtime.jobs.task import Call

Placed = Any  # what stands for a result, a node of a flow or a job; for a group a list of them


class Put(Protocol):
    """Makes a job of a call: it waits for `after`, and counts in these limits. Returns what stands for its result."""

    def __call__(self, call: Call[Any], after: Sequence[Any], limits: tuple[Limit, ...], /) -> Any: ...


class CallTree(Struct, frozen=True):
    """A chain or a group: its parts are calls, chains and groups."""

    parts: tuple[Part, ...]
    budget: int | None = None
    is_chain: ClassVar[bool]

    def limits(self, new_name: Callable[[], str]) -> tuple[Limit, ...]:
        """The limits of its own, each with a new name."""
        return ()

    def calls(self) -> Iterator[Call[Any]]:
        """The calls of all parts."""
        for part in self.parts:
            if isinstance(part, Call):
                yield part
            else:
                yield from part.calls()

    def check_budget(self, where: str) -> None:
        """Refuse a budget of a part: only a whole flow has one."""
        if self.budget is not None:
            raise InvalidJob(f"{where}: a part has a budget of its own; give the budget to the whole")

    def check_depth(self) -> None:
        """Refuse parts that are nested too deep."""
        level: list[Part] = [self]
        for _ in range(MAX_DEPTH):
            level = [inner for part in level if not isinstance(part, Call) for inner in part.parts]
            if not level:
                return
        name = "chain" if self.is_chain else "group"
        raise InvalidJob(f"{name}: chains and groups are nested deeper than {MAX_DEPTH} levels; use an app.flow()")

    def place(self, put: Put, new_name: Callable[[], str], after: Sequence[Any] = ()) -> Placed:
        """Make jobs of all calls; the first ones wait for `after`. Returns what stands for the result."""
        self.check_depth()
        return _place(self, put, new_name, None, after, ())[0]


Part = Call[Any] | CallTree


def _place(
    part: Part,
    put: Put,
    new_name: Callable[[], str],
    given: Placed | None,
    after: Sequence[Any],
    limits: tuple[Limit, ...],
) -> tuple[Placed, Sequence[Any]]:
    """Make jobs of a part that gets the result `given`; `after` are those it waits for without their results.

    Returns what stands for its result, and what the next part waits for besides: an empty group passes on its parents.
    """
    if isinstance(part, Call):
        if part.is_detached:
            return put(part, [*after, *placed_in(given)], limits), []
        return put(part if given is None else structs.replace(part, args=(given, *part.args)), after, limits), []
    limits = (*limits, *part.limits(new_name))
    if part.is_chain:
        for inner in part.parts:
            given, after = _place(inner, put, new_name, given, after, limits)
        return given, after
    placed = [_place(inner, put, new_name, given, after, limits) for inner in part.parts]
    results, parents = [result for result, _ in placed], [*after, *placed_in(given)]
    if not placed_in(results):
        return results, [*parents, *(one for _, passed in placed for one in passed if one not in parents)]
    return results, [one for _, passed in placed for one in passed if one not in parents]


def placed_in(given: Placed | None) -> list[Any]:
    """What stands for results, out of the lists of groups."""
    if isinstance(given, list):
        return [one for inner in given for one in placed_in(inner)]
    return [] if given is None else [given]

"""chain() and group(): the common flows without naming nodes. They nest in each other.

They are plain values; enqueueing builds a flow from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from msgspec import structs

from headrace.core.queues.limits import Limit, group_limit
from headrace.core.queues.rates import check_units
from headrace.core.queues.rule_fields import check_count
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.flows.empty_run import empty_run
from headrace.runtime.flows.flow import Flow, ends_of
from headrace.runtime.jobs.call_tree import CallTree, Part
from headrace.runtime.jobs.flow_run import FlowRun
from headrace.runtime.jobs.task import Call, Task
from headrace.runtime.submit.submitter import Submitter


class Chain(CallTree, frozen=True):
    """Parts that run one after the other, each with the result of the one before as its first argument."""

    is_chain: ClassVar[bool] = True

    def then(self, *parts: Any) -> Chain:
        """The chain with these parts appended."""
        return structs.replace(self, parts=(*self.parts, *_parts("chain", parts)))

    def enqueue(self) -> FlowRun:
        """Store all jobs in one commit. The result of the run is that of the last part."""
        return _enqueued("chain", self)

    async def aenqueue(self) -> FlowRun:
        """Like enqueue(), without blocking the event loop."""
        return await _aenqueued("chain", self)


class Group(CallTree, frozen=True):
    """Parts that run in parallel, or at most so many of their jobs at once."""

    is_chain: ClassVar[bool] = False
    at_most: int | None = None
    name: str = "group"

    def limits(self, new_name: Callable[[], str]) -> tuple[Limit, ...]:
        """Its limit, if it has one."""
        return () if self.at_most is None else (group_limit(self.at_most, new_name()),)

    def then(self, *parts: Any) -> Chain:
        """The group, followed by these parts: the first of them gets the list of results, in the group's order."""
        whole = structs.replace(self, budget=None)
        return Chain((whole, *_parts("chain", parts)), self.budget)

    def enqueue(self) -> FlowRun:
        """Store all jobs in one commit. The result of the run is the list of results.

        An empty group stores nothing: its run is completed, and its result is [].
        """
        return _enqueued(self.name, self)

    async def aenqueue(self) -> FlowRun:
        """Like enqueue(), without blocking the event loop."""
        return await _aenqueued(self.name, self)


def chain(*parts: Any, budget: int | None = None) -> Chain:
    """Run calls one after the other: chain(fetch.bind(url), parse.bind()). Each result is the next first argument.

    A part may be a group, whose list of results is passed on, or another chain. `task.bind(...).detached()` waits for
    the part before it and gets no result. With a `budget`, its jobs may report so many units in all.
    """
    return Chain(_parts("chain", parts), _budget(budget))


def group(*parts: Any, at_most: int | None = None, budget: int | None = None) -> Group:
    """Run calls in parallel: group(fetch.bind(url) for url in urls). A part may be a chain or another group.

    With `at_most`, only so many of its jobs run at once, over all workers; the next one starts when any of them ends.
    With a `budget`, they may report so many units in all. An empty group has an empty list of results.
    """
    most = None if at_most is None else check_count("at_most", at_most)
    return Group(_parts("group", parts), _budget(budget), most)


def _budget(units: int | None) -> int | None:
    return None if units is None else check_units("budget", units)


def mapped(task: Task[..., Any, Any], items: Iterable[Any], at_most: int | None) -> Group:
    """A call of the task for each item, as `task.map()` runs them."""
    if isinstance(items, str | bytes | Mapping) or not hasattr(items, "__iter__"):
        raise InvalidJob(f"map: expected a list or another iterable of items, got {short(items)}", value=items)
    return structs.replace(group([task.bind(item) for item in items], at_most=at_most), name=task.name)


def _parts(where: str, given: tuple[Any, ...]) -> tuple[Part, ...]:
    """The parts as given: one by one, or all of them in one list or generator."""
    single = given[0] if len(given) == 1 else None
    if isinstance(single, Iterable) and not isinstance(single, str | bytes | Call | Chain | Group):
        given = tuple(single)
    if not given and where == "chain":
        raise InvalidJob("chain: it is empty; give at least one call, such as task.bind(1, 2)")
    for part in given:
        if not isinstance(part, Call | Chain | Group):
            raise InvalidJob(
                f"{where}: expected calls such as task.bind(1, 2), chains or groups, got {short(part)}", value=part
            )
        if not isinstance(part, Call):
            part.check_budget(where)
    return given


def _enqueued(name: str, whole: Chain | Group) -> FlowRun:
    return empty_run(name, _empty_results(whole)) if is_empty(whole) else _flow(name, whole).enqueue()


async def _aenqueued(name: str, whole: Chain | Group) -> FlowRun:
    return empty_run(name, _empty_results(whole)) if is_empty(whole) else await _flow(name, whole).aenqueue()


def _flow(name: str, whole: Chain | Group) -> Flow:
    submits = next(whole.calls()).task.submits
    if not isinstance(submits, Submitter):
        raise InvalidJob(f"{name}: these tasks belong to no app, so there is nowhere to enqueue them")
    flow = Flow(name, submits, whole.budget)
    flow.ends = ends_of(flow.add(structs.replace(whole, budget=None)))
    return flow


def is_empty(whole: CallTree) -> bool:
    """Whether it has no call: it consists of empty groups."""
    whole.check_depth()
    return next(whole.calls(), None) is None


def _empty_results(part: Part) -> list[Any]:
    """The result of a part without calls: lists as its groups nest."""
    if isinstance(part, Chain):
        return _empty_results(part.parts[-1])
    return [_empty_results(inner) for inner in part.parts] if isinstance(part, Group) else []

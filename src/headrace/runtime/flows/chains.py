"""chain() and group(): the common flows without naming nodes. They nest in each other.

They are plain values; enqueueing builds a flow from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, structs

from headrace.core.clock import SystemClock
from headrace.core.codec.decode import MAX_DEPTH
from headrace.core.flows.graph import Node
from headrace.core.jobs import ids
from headrace.core.queues.limits import Limit, group_limit
from headrace.core.queues.rule_fields import check_count
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.flows.empty_run import empty_run
from headrace.runtime.flows.flow import Flow
from headrace.runtime.jobs.flow_run import Ends, FlowRun
from headrace.runtime.jobs.task import Call, Task
from headrace.runtime.submit.submitter import Submitter

Fed = Node | list["Fed"]


class Chain(Struct, frozen=True):
    """Parts that run one after the other, each with the result of the one before as its first argument."""

    parts: tuple[Part, ...]

    def then(self, *parts: Any) -> Chain:
        """The chain with these parts appended."""
        return Chain((*self.parts, *_parts("chain", parts)))

    def enqueue(self) -> FlowRun:
        """Store all jobs in one commit. The result of the run is that of the last part."""
        return _enqueued("chain", self)

    async def aenqueue(self) -> FlowRun:
        """Like enqueue(), without blocking the event loop."""
        return await _aenqueued("chain", self)


class Group(Struct, frozen=True):
    """Parts that run in parallel, or at most so many of their jobs at once."""

    parts: tuple[Part, ...]
    at_most: int | None = None
    name: str = "group"

    def then(self, *parts: Any) -> Chain:
        """The group, followed by these parts: the first of them gets the list of results, in the group's order."""
        return Chain((self, *_parts("chain", parts)))

    def enqueue(self) -> FlowRun:
        """Store all jobs in one commit. The result of the run is the list of results.

        An empty group stores nothing: its run is completed, and its result is [].
        """
        return _enqueued(self.name, self)

    async def aenqueue(self) -> FlowRun:
        """Like enqueue(), without blocking the event loop."""
        return await _aenqueued(self.name, self)


Part = Call[Any] | Chain | Group


def chain(*parts: Any) -> Chain:
    """Run calls one after the other: chain(fetch.bind(url), parse.bind()). Each result is the next first argument.

    A part may be a group, whose list of results is passed on, or another chain. `task.bind(...).detached()` waits for
    the part before it and gets no result.
    """
    return Chain(_parts("chain", parts))


def group(*parts: Any, at_most: int | None = None) -> Group:
    """Run calls in parallel: group(fetch.bind(url) for url in urls). A part may be a chain or another group.

    With `at_most`, only so many of its jobs run at once, over all workers; the next one starts when any of them ends.
    An empty group has an empty list of results.
    """
    return Group(_parts("group", parts), None if at_most is None else check_count("at_most", at_most))


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
    return given


def _enqueued(name: str, whole: Chain | Group) -> FlowRun:
    return empty_run(name, _empty_results(whole)) if is_empty(whole) else _flow(name, whole).enqueue()


async def _aenqueued(name: str, whole: Chain | Group) -> FlowRun:
    return empty_run(name, _empty_results(whole)) if is_empty(whole) else await _flow(name, whole).aenqueue()


def _flow(name: str, whole: Chain | Group) -> Flow:
    submits = next(_calls(whole)).task.submits
    if not isinstance(submits, Submitter):
        raise InvalidJob(f"{name}: these tasks belong to no app, so there is nowhere to enqueue them")
    flow = Flow(name, submits)
    flow.ends = _ends(_add_part(flow, whole, None, [], ()))
    return flow


def is_empty(whole: Chain | Group) -> bool:
    """Whether it has no call: it consists of empty groups."""
    _refuse_depth("chain" if isinstance(whole, Chain) else "group", whole)
    return next(_calls(whole), None) is None


def _empty_results(part: Part) -> list[Any]:
    """The result of a part without calls: lists as its groups nest."""
    if isinstance(part, Chain):
        return _empty_results(part.parts[-1])
    return [_empty_results(inner) for inner in part.parts] if isinstance(part, Group) else []


def _refuse_depth(name: str, whole: Chain | Group) -> None:
    level: list[Part] = [whole]
    for _ in range(MAX_DEPTH):
        level = [inner for part in level if not isinstance(part, Call) for inner in part.parts]
        if not level:
            return
    raise InvalidJob(f"{name}: chains and groups are nested deeper than {MAX_DEPTH} levels; use an app.flow()")


def _calls(part: Part) -> Iterator[Call[Any]]:
    if isinstance(part, Call):
        yield part
    else:
        for inner in part.parts:
            yield from _calls(inner)


def _add_part(flow: Flow, part: Part, fed: Fed | None, after: list[Node], limits: tuple[Limit, ...]) -> Fed:
    """Add the part to the flow, with the results before it as input; returns the nodes of its own results.

    `after` are nodes that it waits for without their results: an empty group came between. `limits` are those of the
    groups that it is in.
    """
    if isinstance(part, Group):
        if part.at_most is not None:
            limits = (*limits, group_limit(part.at_most, ids.new_id(SystemClock().now())))
        return [_add_part(flow, inner, fed, after, limits) for inner in part.parts]
    if isinstance(part, Chain):
        for inner in part.parts:
            before, fed = fed, _add_part(flow, inner, fed, after, limits)
            after = [] if _nodes(fed) else [*after, *_nodes(before)]
        assert fed is not None  # a chain has at least one part
        return fed
    if part.is_detached:
        node = flow.add(part, after=(*after, *_nodes(fed)))
    else:
        node = flow.add(part if fed is None else structs.replace(part, args=(fed, *part.args)), after=tuple(after))
    node.limits = limits
    return node


def _nodes(fed: Fed | None) -> list[Node]:
    if isinstance(fed, list):
        return [node for one in fed for node in _nodes(one)]
    return [] if fed is None else [fed]


def _ends(fed: Fed) -> Ends:
    return fed.id if isinstance(fed, Node) else [_ends(one) for one in fed]

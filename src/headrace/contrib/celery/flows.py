"""Builds a flow of headrace from a canvas, and the results of its parts."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from headrace import Call, Flow, Headrace
from headrace.contrib.celery.results import AsyncResult, GroupResult
from headrace.core.flows.graph import Node

Fed = Node | list["Fed"]


class FlowBuilder:
    """A flow under construction. `call` makes the call of a signature, `relay` that of an errback."""

    def __init__(self, flow: Flow, call: Any, relay: Any) -> None:
        self._flow = flow
        self._call = call
        self._relay = relay
        self._after: dict[int, list[Node]] = {}  # of an empty group: the nodes that were before it
        self.chained: list[Fed] = []
        self.is_empty = True

    def add(self, part: Any, fed: Fed | None, *, keep: bool) -> Node:
        """Add the call of a signature, with the results before it as its first argument."""
        self.is_empty = False
        call: Call[Any] = self._call(part, {"keep_result": True} if keep else {})
        after = self._after.get(id(fed), []) if isinstance(fed, list) else []
        if fed is None:
            return self._flow.add(call)
        if part.immutable:
            return self._flow.add(call, after=(*after, *nodes_of(fed)))
        return self._flow.add(structs.replace(call, args=(fed, *call.args)), after=tuple(after))

    def in_group(self, results: list[Fed], fed: Fed | None) -> Fed:
        """The results of a group; what follows an empty one waits for what was before it."""
        if not nodes_of(results):
            before = self._after.get(id(fed), []) if isinstance(fed, list) else []
            self._after[id(results)] = [*before, *nodes_of(fed)]
        return results

    def add_errback(self, node: Node, errback: Any) -> None:
        """Add a job that runs after the node, and calls the errback if it failed."""
        self._flow.add(self._relay(node, errback), on_parent_failure="run")


def nodes_of(fed: Fed | None) -> list[Node]:
    if isinstance(fed, list):
        return [node for one in fed for node in nodes_of(one)]
    return [] if fed is None else [fed]


def result_of(fed: Fed, app: Headrace, flow_id: str, parent: Any = None) -> Any:
    """The AsyncResult of a node, or the GroupResult of a list."""
    if isinstance(fed, Node):
        return AsyncResult(fed.id, app, parent)
    return GroupResult(flow_id, [result_of(one, app, flow_id) for one in fed], parent)


def chain_result(ends: Fed, chained: list[Fed], app: Headrace, flow_id: str) -> Any:
    """The result of the last part, whose parents are those of the parts before it."""
    parent = None
    for fed in chained[:-1] if chained and chained[-1] is ends else ():
        parent = result_of(fed, app, flow_id, parent)
    return result_of(ends, app, flow_id, parent)

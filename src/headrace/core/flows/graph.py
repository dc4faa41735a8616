"""A graph of calls before it is stored: nodes and dependencies. Refuses cycles and nodes of other graphs.

Pure: it knows only the arguments of calls, and stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from headrace.core.codec.result_refs import result_refs_in
from headrace.core.jobs.dependencies import Dependency, Policy, find_cycle
from headrace.core.queues.limits import Limit
from headrace.core.tasks.options import check_jobs
from headrace.core.text import short
from headrace.errors import InvalidJob


class NodeArguments(Protocol):
    """The arguments of a call, as a graph needs them."""

    @property
    def args(self) -> tuple[Any, ...]: ...
    @property
    def kwargs(self) -> dict[str, Any]: ...


class Node:
    """A job of a flow that is not stored yet. As an argument of another node it stands for its result."""

    __slots__ = ("_graph", "_others", "call", "id", "limits", "policy", "title")

    def __init__(self, graph: Graph, call: NodeArguments, title: str, node_id: str, policy: Policy | None) -> None:
        self._graph = graph
        self._others: list[Node | str] = []
        self.call = call
        self.title = title
        self.id = node_id
        self.policy = policy
        self.limits: tuple[Limit, ...] = ()

    @property
    def result_ref_id(self) -> str:
        return self.id

    def after(self, *others: Any) -> Node:
        """Make it wait for these as well, nodes or jobs, without their results; returns the node itself."""
        self._graph.ensure_open()
        # Also a node in a list: by its id alone, a node of another graph can't be detected.
        self._others += [
            parent
            for other in each_in(others)
            for parent in ([other] if isinstance(other, Node) else check_jobs("after", other))
        ]
        return self

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The ids of parents besides those whose results it gets."""
        if not self._others:  # the usual case in large flows
            return ()
        return tuple(other.id if isinstance(other, Node) else other for other in self._others)

    def given(self) -> list[Node]:
        """Every node whose result it gets."""
        refs = result_refs_in(self.call.args, self.call.kwargs)
        return [node for node in refs if isinstance(node, Node)] if refs else []

    def nodes(self) -> list[Node]:
        """Every node it depends on."""
        given = self.given()
        return given + [node for node in self._others if isinstance(node, Node)] if self._others else given

    def is_of(self, graph: Graph) -> bool:
        return self._graph is graph

    @property
    def graph_name(self) -> str:
        return self._graph.name

    def __repr__(self) -> str:
        return f"<Node {self.title} {self.id}>"


def each_in(given: Any) -> Iterator[Any]:
    """Nodes and jobs out of lists of them."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        for one in given:
            yield from each_in(one)
    else:
        yield given


class Graph:
    """Nodes in the order they were added."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.is_closed = False
        self.part_of: str | None = None  # the graph that has taken over its nodes

    def add(self, call: NodeArguments, title: str, node_id: str, policy: Policy | None = None) -> Node:
        self.ensure_open()
        node = Node(self, call, title, node_id, policy)
        self.nodes.append(node)
        return node

    def ends(self) -> list[Node]:
        """The nodes that no other one depends on."""
        waited_for = {node for other in self.nodes for node in other.nodes()}
        return [node for node in self.nodes if node not in waited_for]

    def take_over(self, other: Graph, after: Sequence[Any]) -> list[Node]:
        """Add the nodes of another graph, which is closed by that; those without parents wait for `after`.

        Returns the nodes that no other one depends on.
        """
        for graph in (self, other):
            graph.ensure_open()
        other.ensure_whole()
        ends = other.ends()
        for node in [node for node in other.nodes if not node.nodes()]:
            node.after(after)
        for node in other.nodes:
            node._graph = self
        self.nodes += other.nodes
        other.part_of = self.name
        return ends

    def ensure_open(self) -> None:
        """Refuse a change to a stored graph."""
        if self.part_of is not None:
            raise InvalidJob(
                f"flow {short(self.name)} was added to flow {short(self.part_of)}; add to that one, and enqueue it",
                value=self.name,
            )
        if self.is_closed:
            raise InvalidJob(
                f"flow {short(self.name)} is already enqueued; build another one, or let a separate job wait for "
                "its jobs with using(after=...)",
                value=self.name,
            )

    def ensure_whole(self) -> None:
        """Refuse a graph without nodes, or with a node that depends on one of another graph."""
        if not self.nodes:
            raise InvalidJob(
                f"flow {short(self.name)} has no jobs; add some with flow.add(task.bind(...))", value=self.name
            )
        for node in self.nodes:
            for other in node.nodes():
                if not other.is_of(self):
                    raise InvalidJob(
                        f"{node.title} depends on {other.title}, which was added to another flow, "
                        f"{short(other.graph_name)}; add it to this one, or pass its job once that flow is enqueued",
                        value=other.graph_name,
                    )

    def ensure_acyclic(self, edges: Sequence[Dependency]) -> None:
        """Refuse a cycle, and name its path."""
        places = {node.id: place for place, node in enumerate(self.nodes)}
        if all(places.get(edge.parent, -1) < places.get(edge.child, len(places)) for edge in edges):
            return  # the usual case: no node waits for a later one
        cycle = find_cycle((edge.parent, edge.child) for edge in edges)
        if cycle:
            titles = {node.id: node.title for node in self.nodes}
            path = " -> ".join(titles.get(job_id, job_id) for job_id in cycle)
            raise InvalidJob(
                f"flow {short(self.name)}: these jobs would wait for each other for ever: {path}", value=self.name
            )

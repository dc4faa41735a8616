"""Building flows: calls that wait for calls, stored in one commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload

from msgspec import UNSET

from headrace.core.flows.graph import Graph, Node, each_in
from headrace.core.jobs.dependencies import FlowSummary, Policy
from headrace.core.queues.limits import Limit
from headrace.core.queues.rates import check_units
from headrace.core.tasks.labels import check_label
from headrace.core.tasks.options import check_policy
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.jobs.async_twin import in_thread
from headrace.runtime.jobs.call_tree import CallTree
from headrace.runtime.jobs.flow_run import Ends, FlowRun
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Call
from headrace.runtime.submit.dependencies import GraphInsert
from headrace.runtime.submit.submitter import Submitter


class Flow:
    """Jobs that wait for each other, to be enqueued together. `app.flow(name)` makes one."""

    def __init__(self, name: str, submitter: Submitter, budget: int | None = None) -> None:
        self.name = check_label("flow", name)
        self.budget = None if budget is None else check_units("budget", budget)
        self._submitter = submitter
        self._graph = Graph(self.name)
        self._graph_insert: GraphInsert | None = None
        self.ends: Ends | None = None  # the nodes of its result, if the dependencies do not determine them

    @overload
    def add(
        self, call: Call[Any], *, name: str | None = None, on_parent_failure: Policy | None = None, after: Any = ()
    ) -> Node: ...
    @overload
    def add(self, call: CallTree | Flow, *, on_parent_failure: Policy | None = None, after: Any = ()) -> Any: ...
    def add(
        self,
        call: Call[Any] | CallTree | Flow,
        *,
        name: str | None = None,
        on_parent_failure: Policy | None = None,
        after: Any = (),
    ) -> Any:
        """Add a job. It waits for a node among its arguments, also inside lists and dicts, and gets its result.

        `after` are nodes or jobs it waits for as well. If one of all these does not complete: "cancel" it (unless the
        call itself says otherwise), "run" it with a ParentFailure in place of the result, or "hold" it until a person
        decides. `name` is shown in its graph in place of the task; it is the field "name" of the job's metadata.

        Of a chain, a group or another flow all jobs are added; the first ones run after `after`. What is returned
        stands for its result: a node, or for a group a list of nodes.
        """
        policy = None if on_parent_failure is None else check_policy("on_parent_failure", on_parent_failure)
        parents = () if after is None else tuple(each_in(after))
        if isinstance(call, Call):
            return self._add(call, name, policy, parents)
        if not isinstance(call, CallTree | Flow):
            raise InvalidJob(
                f"flow.add: expected a call such as task.bind(1, 2), a chain, a group or a flow, got {short(call)}",
                value=call,
            )
        if name is not None:
            raise InvalidJob("flow.add: only a call has a name; leave name out")
        if isinstance(call, CallTree):
            call.check_budget("flow.add")
        if isinstance(call, Flow):
            return self._add_flow(call, policy, parents)

        def put(one: Call[Any], parents: Sequence[Any], limits: tuple[Limit, ...]) -> Node:
            node = self._add(one, None, None if _has_policy(one) else policy, parents)
            node.limits = limits
            return node

        with self._whole_or_nothing():
            return call.place(put, self._submitter.new_id, parents)

    def _add(self, call: Call[Any], name: str | None, policy: Policy | None, after: Sequence[Any]) -> Node:
        if call.task.submits is not self._submitter:
            raise InvalidJob(f"flow.add: task {call.task.name!r} belongs to another app than the flow")
        if name is not None:
            call = _named(call, check_label("name", name))
        given = call.options.job_id
        node_id = self._submitter.new_id() if given is UNSET else given
        with self._whole_or_nothing():
            node = self._graph.add(call, call.task.name, node_id, policy)
            return node.after(after) if after else node

    def _add_flow(self, other: Flow, policy: Policy | None, after: Sequence[Any]) -> Any:
        if other is self:
            raise InvalidJob(f"flow.add: {other!r} can't be a part of itself")
        if other._submitter is not self._submitter:
            raise InvalidJob(f"flow.add: {other!r} belongs to another app than the flow")
        if other.budget is not None:
            raise InvalidJob(f"flow.add: {other!r} has a budget of its own; give the budget to the whole")
        self._graph_insert = None
        nodes = list(other._graph.nodes)
        ends = self._graph.take_over(other._graph, after)
        for node in nodes:
            if node.policy is None and not _has_policy(_call(node)):
                node.policy = policy
        return ends[0] if len(ends) == 1 else ends

    @contextmanager
    def _whole_or_nothing(self) -> Iterator[None]:
        """What is refused must not be enqueued with the rest."""
        before = len(self._graph.nodes)
        self._graph_insert = None
        try:
            yield
        except InvalidJob:
            del self._graph.nodes[before:]
            raise

    def enqueue(self) -> FlowRun:
        """Store all jobs in one commit, or none."""
        if (tracer := self._submitter.tracer) is None:
            return self._run(self._submitter.insert_graph(self._prepared()))
        with tracer.submitting(self) as report:
            jobs = self._submitter.insert_graph(self._prepared())
            report(jobs)
        return self._run(jobs)

    async def aenqueue(self) -> FlowRun:
        """Like enqueue(), without blocking the event loop."""
        if (tracer := self._submitter.tracer) is None:
            return self._run(await self._submitter.ainsert_graph(await in_thread(self._prepared)))
        with tracer.submitting(self) as report:
            jobs = await self._submitter.ainsert_graph(await in_thread(self._prepared))
            report(jobs)
        return self._run(jobs)

    def _prepared(self) -> GraphInsert:
        """The same records each time, so that a call whose answer was lost can be repeated and stores nothing twice."""
        self._graph.ensure_open()
        if self._graph_insert is None:
            self._graph.ensure_whole()
            nodes = self._graph.nodes
            _ensure_results(nodes)
            graph_insert = self._submitter.prepare([_call(node) for node in nodes], nodes, self.name, self.budget)
            self._graph.ensure_acyclic(graph_insert.edges)
            self._graph_insert = graph_insert
        return self._graph_insert

    def _run(self, jobs: list[Job[Any]]) -> FlowRun:
        self._graph.is_closed = True
        assert self._graph_insert is not None
        assert self._graph_insert.flow is not None
        counts = Counter(new.state.value for new in self._graph_insert.new_jobs)
        # Computed here, as the dependencies leave with the jobs when these are archived.
        ends = _last_ones(self._graph_insert) if self.ends is None else self.ends
        run = FlowRun(self._submitter.services, FlowSummary(self._graph_insert.flow, dict(counts)), jobs, ends)
        return run if self._submitter.intercept is None else run.refresh()  # the jobs may have run already

    def __repr__(self) -> str:
        return f"<Flow {self.name} of {len(self._graph.nodes)}>"


def ends_of(placed: Any) -> Ends:
    """The ids of what flow.add() has returned."""
    return placed.id if isinstance(placed, Node) else [ends_of(one) for one in placed]


def _last_ones(graph_insert: GraphInsert) -> Ends:
    waited_for = {edge.parent for edge in graph_insert.edges}
    last: list[Ends] = [new.id for new in graph_insert.new_jobs if new.id not in waited_for]
    return last[0] if len(last) == 1 else last


def _ensure_results(nodes: Sequence[Node]) -> None:
    """Refuse a job that needs a result which is not stored."""
    unkept = {node for node in nodes if not _call(node).keeps_result}
    if not unkept:
        return
    for node in nodes:
        for other in node.given():
            if other in unkept:
                raise InvalidJob(
                    f"{node.title} needs the result of {other.title}, which has keep_result=False; "
                    "set keep_result=True, or use node.after(...)"
                )


def _call(node: Node) -> Call[Any]:
    assert isinstance(node.call, Call)
    return node.call


def _has_policy(call: Call[Any]) -> bool:
    return call.options.over(call.task.options).on_parent_failure is not UNSET


def _named(call: Call[Any], name: str) -> Call[Any]:
    """The call with a name for its node."""
    metadata = {} if call.options.metadata is UNSET else dict(call.options.metadata)
    return call.using(metadata={**metadata, "name": name})

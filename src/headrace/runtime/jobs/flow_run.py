"""The handle of a stored flow: its progress and results, and actions on all its jobs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from datetime import datetime
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from headrace.core.clock import to_datetime
from headrace.core.jobs.budgets import Spending
from headrace.core.jobs.dependencies import PARENT_FAILED, PARENTS_COMPLETED, Dependency, FlowSummary
from headrace.core.jobs.records import Filter, JobRow
from headrace.core.jobs.states import FINAL, OPEN, State, Trigger
from headrace.core.option_times import check_timeout
from headrace.core.queues.rates import check_units
from headrace.errors import FlowNotFound, InvalidJob, JobCancelled, ResultUnavailable
from headrace.runtime.jobs.async_twin import in_thread, twin
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import JobServices

if TYPE_CHECKING:
    from headrace.core.flows.drawing import JobGraph

FlowState = Literal["running", "failed", "cancelled", "completed"]
Ends = str | list["Ends"]  # the ids of the last jobs, nested as their results are

_BATCH_SIZE = 1000


class FlowProgress(NamedTuple):
    """How many jobs of a flow have finished, out of how many."""

    done: int
    total: int


class FlowRun:
    """A flow in the store. `state`, `progress` and the jobs are as of the last refresh()."""

    __slots__ = ("_ends", "_jobs", "_services", "_summary", "id")

    def __init__(
        self, services: JobServices, summary: FlowSummary, jobs: list[Job[Any]] | None = None, ends: Ends | None = None
    ) -> None:
        self.id: str = summary.flow.id
        self._services = services
        self._summary = summary
        self._jobs = jobs
        self._ends = ends

    # -- attributes

    @property
    def name(self) -> str:
        return self._summary.flow.name

    @property
    def created_at(self) -> datetime:
        moment = to_datetime(self._summary.flow.created_at)
        assert moment is not None
        return moment

    @property
    def counts(self) -> dict[str, int]:
        """The number of its jobs in each state."""
        return dict(self._summary.jobs)

    @property
    def state(self) -> FlowState:
        """`running` while any job is open, then `failed` if any failed, else `cancelled` if any was, or `completed`."""
        counts = self._summary.jobs
        if any(counts.get(state, 0) for state in OPEN):
            return "running"
        if counts.get(State.FAILED, 0):
            return "failed"
        if not (cancelled := counts.get(State.CANCELLED, 0)):
            return "completed"
        return "cancelled" if cancelled > self._not_needed() else "completed"

    def _not_needed(self) -> int:
        """How many of its cancelled jobs were to run only after a failure."""
        rows = self._services.rows_where(Filter(flow=self.id, states=(State.CANCELLED,)))
        return sum(row.reason == PARENTS_COMPLETED for row in rows)

    @property
    def is_finished(self) -> bool:
        return self.state != "running"

    @property
    def progress(self) -> FlowProgress:
        counts = self._summary.jobs
        return FlowProgress(sum(counts.get(state, 0) for state in FINAL), sum(counts.values()))

    @property
    def spending(self) -> Spending | None:
        """How many units its jobs have reported by now, and how many they may; None without a budget."""
        return self._services.spending_of_flow(self.id)

    def set_budget(self, units: int) -> Spending:
        """Change its budget, also of jobs that are stored already. InvalidJob if it has none."""
        spending = self._services.spending_of_flow(self.id, check_units("budget", units))
        if spending is None:
            raise InvalidJob(f"flow {self.id} ({self.name}) was enqueued without a budget, so its costs are not summed")
        return spending

    @property
    def jobs(self) -> list[Job[Any]]:
        """Its jobs in the order they were added; spawned ones come last."""
        if self._jobs is None:
            rows = sorted(self._services.rows_where(Filter(flow=self.id)), key=lambda row: row.seq)
            self._jobs = [Job(self._services, row) for row in rows]
        return self._jobs

    @property
    def results(self) -> dict[str, Any]:
        """The results of its completed jobs, by id; without results that could not be stored."""
        rows = self._services.rows_where(Filter(flow=self.id, states=(State.COMPLETED,)), light=False)
        found: dict[str, Any] = {}
        for row in sorted(rows, key=lambda row: row.seq):
            with contextlib.suppress(ResultUnavailable):
                found[row.id] = Job[Any](self._services, row).outcome()
        return found

    # -- following it

    def refresh(self) -> FlowRun:
        """Read it again; FlowNotFound if all of its jobs are gone."""
        self._summary = self._services.flow_summary(self.id)
        self._jobs = None
        return self

    def wait(self, timeout: float | None = None) -> FlowState:
        """Wait until every job has finished, and return the state."""
        deadline = _Deadline(timeout)
        while (job_id := self._open_job()) is not None:
            if not self._services.wait(job_id, deadline.left()):
                raise self._late(deadline)
        return self.state

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the last job, which no other waits for, and return its result; for several, the list of results.

        If one of them did not complete, it raises like job.result(), with the error of the job at fault.
        """
        deadline = _Deadline(timeout)
        ends = self._last_ones()
        if not ends:  # it ends with an empty group
            self.wait(timeout)
        for job_id in _flat(ends):
            if not self._services.wait(job_id, deadline.left()):
                raise self._late(deadline)
        return self._outcome(ends)

    async def await_(self, timeout: float | None = None) -> FlowState:
        """Like wait(), without blocking the event loop."""
        deadline = _Deadline(timeout)
        while (job_id := await in_thread(self._open_job)) is not None:
            if not await self._services.await_finish(job_id, deadline.left()):
                raise await in_thread(self._late, deadline)
        return self.state

    async def aresult(self, timeout: float | None = None) -> Any:
        """Like result(), without blocking the event loop."""
        deadline = _Deadline(timeout)
        ends = await in_thread(self._last_ones)
        if not ends:
            await self.await_(timeout)
        for job_id in _flat(ends):
            if not await self._services.await_finish(job_id, deadline.left()):
                raise await in_thread(self._late, deadline)
        return await in_thread(self._outcome, ends)

    def __await__(self) -> Generator[Any, None, Any]:
        return self.aresult().__await__()

    # -- acting on it

    def cancel(self) -> int:
        """Cancel every unfinished job; returns the number of jobs."""
        before = sum(self._services.flow_summary(self.id).jobs.get(state, 0) for state in OPEN)
        self._services.move(Filter(flow=self.id), Trigger.CANCEL)
        self.refresh()
        # Cancelling a job also cancels those that wait for it, which the store does not name.
        return before - sum(self._summary.jobs.get(state, 0) for state in OPEN)

    def retry(self) -> int:
        """Retry failed and cancelled jobs, and those cancelled because of them; returns how many were at fault."""
        ended = self._services.rows_where(Filter(flow=self.id, states=(State.FAILED, State.CANCELLED)))
        at_fault = self._parents_first(
            [row.id for row in ended if row.reason not in (PARENT_FAILED, PARENTS_COMPLETED)]
        )
        revived = 0
        for start in range(0, len(at_fault), _BATCH_SIZE):
            revived += len(
                self._services.move(Filter(ids=tuple(at_fault[start : start + _BATCH_SIZE])), Trigger.REVIVE)
            )
        self.refresh()
        return revived

    # -- drawing it

    def graph(self) -> dict[str, Any]:
        """The jobs and their dependencies as plain data; an edge leads from a parent to its child."""
        jobs = self.jobs
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "nodes": [_node(job) for job in jobs],
            "edges": [{"from": edge.parent, "to": edge.child, "policy": edge.policy} for edge in self._edges(jobs)],
        }

    def mermaid(self) -> str:
        """The graph as Mermaid text, for a Markdown page."""
        from headrace.core.flows.drawing import mermaid  # deferred: few programs draw

        return mermaid(self._drawing())

    def svg(self) -> str:
        """The graph as an SVG image, each job in the color of its state."""
        from headrace.core.flows.drawing import svg  # deferred: few programs draw

        return svg(self._drawing())

    async def ajobs(self) -> list[Job[Any]]:
        """Like `jobs`, without blocking the event loop."""
        return await in_thread(lambda: self.jobs)

    async def aresults(self) -> dict[str, Any]:
        """Like `results`, without blocking the event loop."""
        return await in_thread(lambda: self.results)

    async def aspending(self) -> Spending | None:
        """Like `spending`, without blocking the event loop."""
        return await in_thread(lambda: self.spending)

    aset_budget = twin(set_budget)
    arefresh = twin(refresh)
    acancel = twin(cancel)
    aretry = twin(retry)
    agraph = twin(graph)
    amermaid = twin(mermaid)
    asvg = twin(svg)

    # -- internals

    def _drawing(self) -> JobGraph:
        from headrace.core.flows.drawing import GraphNode, JobGraph  # deferred: few programs draw

        jobs = self.jobs
        boxes = [GraphNode(job.id, _node_name(job), job.state) for job in jobs]
        return JobGraph(boxes, [(edge.parent, edge.child) for edge in self._edges(jobs)])

    def _edges(self, jobs: Sequence[Job[Any]]) -> list[Dependency]:
        """The dependencies between its own jobs."""
        own = {job.id for job in jobs}
        return [edge for edge in self._services.edges(list(own)) if edge.parent in own and edge.child in own]

    def _parents_first(self, ids: list[str]) -> list[str]:
        """Parents first, so that each job finds its parents open."""
        own: dict[str, set[str]] = {job_id: set() for job_id in ids}
        for edge in self._services.edges(ids):
            if edge.child in own and edge.parent in own:
                own[edge.child].add(edge.parent)
        return list(TopologicalSorter(own).static_order())

    def _open_job(self) -> str | None:
        """An unfinished job: the newest, since jobs with parents mostly come last; None if all have finished.

        Jobs finish between two reads, so only counts that were read after no open job was found prove the end. Counts
        with an open job may be older than that job's start; it is looked up again.
        """
        while True:
            row = self._services.newest(Filter(flow=self.id, states=tuple(sorted(OPEN))))
            if row is not None:
                return row.id
            if self.refresh().is_finished:
                return None

    def _last_ones(self) -> Ends:
        if self._ends is None:
            jobs = self.jobs
            waited_for = {edge.parent for edge in self._edges(jobs)}
            last: list[Ends] = [job.id for job in jobs if job.id not in waited_for]
            self._ends = last[0] if len(last) == 1 else last
        return self._ends

    def _outcome(self, ends: Ends) -> Any:
        rows = self._services.rows(list(_flat(ends)), light=False)

        def of(ends: Ends) -> Any:
            return [of(one) for one in ends] if isinstance(ends, list) else self._result_of(ends, rows.get(ends))

        value = of(ends)
        with contextlib.suppress(FlowNotFound):  # all of it is archived: it stays as last seen
            self.refresh()
        return value

    def _result_of(self, job_id: str, row: JobRow | None) -> Any:
        if row is None:
            row = self._services.row(job_id)
        try:
            return Job[Any](self._services, row).outcome()
        except JobCancelled:
            if row.reason == PARENTS_COMPLETED:
                return None  # it was to run only after a failure
            failed = self._failed_above(job_id) if row.reason == PARENT_FAILED else None
            if failed is None:
                raise
            return Job[Any](self._services, failed).outcome()  # this raises the error of that job

    def _failed_above(self, job_id: str) -> JobRow | None:
        """The failed job because of which this one was cancelled, maybe through others."""
        level = {job_id}
        while level:
            rows = self._services.rows(
                [edge.parent for edge in self._services.edges(list(level)) if edge.child in level]
            )
            failed = [row for row in rows.values() if row.state is State.FAILED]
            if failed:
                return min(failed, key=lambda row: row.seq)
            level = {row.id for row in rows.values() if row.reason == PARENT_FAILED}
        return None

    def _late(self, deadline: _Deadline) -> TimeoutError:
        self.refresh()
        done, total = self.progress
        late = f"flow {self.id} ({self.name}) is not finished after {deadline.seconds:g} s"
        text = f"{late}: {done} of {total} jobs have finished"
        row = self._services.newest(Filter(flow=self.id, states=tuple(sorted(OPEN))))
        if row is None:
            return TimeoutError(text)
        return TimeoutError(f"{text}; job {row.id} ({row.task}) has not: {self._services.explain(row).sentence}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlowRun) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        done, total = self.progress
        return f"<FlowRun {self.id} {self.name} {self.state} {done}/{total}>"


class _Deadline:
    """The time left for several waits."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = check_timeout("timeout", timeout)
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._timeout or 0.0

    def left(self) -> float | None:
        return None if self._timeout is None else max(self._timeout - (time.monotonic() - self._started), 0.0)


def _flat(ends: Ends) -> Iterator[str]:
    if isinstance(ends, str):
        yield ends
    else:
        for one in ends:
            yield from _flat(one)


def _node(job: Job[Any]) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": _node_name(job),
        "task": job.task,
        "queue": job.queue,
        "state": job.state.value,
        "attempt": job.attempt,
    }


def _node_name(job: Job[Any]) -> str:
    """The name that `flow.add` gave it, or its task."""
    name = job.metadata.get("name") if job.row.metadata else None
    return name if isinstance(name, str) and name else job.task

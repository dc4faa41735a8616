"""The jobs that a running job makes: those it waits for, and those that undo its steps if it does not complete."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

from msgspec import UNSET, structs

from headrace.core.damaged_records import tags_of
from headrace.core.jobs.compensations import compensation_id
from headrace.core.jobs.dependencies import Dependency, Policy
from headrace.core.jobs.records import JobRow, NewJob
from headrace.core.jobs.states import FINAL
from headrace.core.jobs.unique_rules import UniqueRule
from headrace.core.queues.limits import Limit, is_concurrency_key, lane_limits_of
from headrace.engines.protocol.engine import Engine
from headrace.errors import DuplicateJob, InvalidJob
from headrace.runtime.jobs.encryption import is_same_call, with_own_payload
from headrace.runtime.jobs.hooks import Hooks
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.services import JobServices
from headrace.runtime.jobs.task import Call, ChildDraft
from headrace.runtime.submit.dependencies import GraphInsert, graph_insert, in_flow_of
from headrace.runtime.submit.enqueue_hooks import around
from headrace.runtime.submit.errors import not_itself
from headrace.runtime.submit.template import template_of


class JobInserts(Protocol):
    """How an app makes and inserts jobs."""

    hooks: Hooks
    max_payload: int

    @property
    def services(self) -> JobServices: ...
    @property
    def engine(self) -> Engine: ...
    def new_id(self) -> str: ...
    def new_job(
        self,
        call: Call[Any],
        now: int,
        job_id: str | None = None,
        after: Sequence[str] = (),
        policy: Policy | None = None,
        limits: Sequence[Limit] = (),
        /,
    ) -> tuple[NewJob, UniqueRule | None, Sequence[Dependency]]: ...
    def insert_graph(self, graph: GraphInsert) -> list[Job[Any]]: ...


class Children:
    """Stores the jobs that a running job makes."""

    def __init__(self, inserts: JobInserts) -> None:
        self._inserts = inserts

    def inheritable(self, parent: str) -> dict[str, Any]:
        """The options that the children of this job inherit on request: its priority, tags and keys."""
        row = self._inserts.services.row(parent)
        options: dict[str, Any] = {"priority": row.priority, "tags": tags_of(row.tags)}
        for kind, name in lane_limits_of(row.lane):
            if kind == "rate":
                options["rate_key"] = name
            elif is_concurrency_key(kind, name):
                options["concurrency_key"] = name
        return options

    def draft(
        self,
        call: Call[Any],
        parent: str,
        now: int,
        job_id: str | None = None,
        after: Sequence[str] = (),
        limits: Sequence[Limit] = (),
    ) -> ChildDraft:
        """A job that `parent` waits for; nothing is inserted here. Without an id it gets a new one."""
        new, edges = self._child_of(call, parent, now, job_id or self._inserts.new_id(), after, limits)
        graph = graph_insert([new], edges)
        return ChildDraft(Job(self._inserts.services, graph.new_jobs[0]), graph.new_jobs[0], graph.edges)

    def submit(self, draft: ChildDraft, parent: str) -> Job[Any]:
        """Insert a job that `parent` waits for; if an earlier attempt did so, return that job."""
        new = draft.new
        rows = self._rows(parent, new.id)
        if parent not in rows:
            raise InvalidJob(
                f"spawn: job {parent} is not in {self._inserts.engine.url} as seen from here, so it can't get a "
                "child at once; leave at_once out (other processes, such as a sandbox, can't see a memory:// store)"
            )
        job, is_same = self._stored(new, draft.edges, rows, parent)
        if not is_same:
            now_spawned = repr(new.task) if job.task != new.task else "the same with other arguments"
            raise InvalidJob(
                f"job {parent} spawned {job.task!r} in this place in an earlier attempt, and now {now_spawned}; "
                "spawn in the same order in every attempt, or leave at_once out"
            )
        return job

    def submit_compensation(
        self, call: Call[Any], parent: str, name: str, now: int, earlier: Sequence[str]
    ) -> Job[Any]:
        """Insert a job that runs only if `parent` does not complete, and before those registered `earlier`.

        If an earlier attempt did so, return that job, unless it is over: then it undid an earlier run of the step.
        """
        new, edges = self._new(call, now, "compensate")
        new = structs.replace(new, expires_at=None)  # it waits for as long as its job takes
        for number in count(1):
            new = structs.replace(new, id=compensation_id(parent, name, number))
            rows = self._rows(parent, new.id, *earlier)
            if new.id not in rows or rows[new.id].state not in FINAL:
                break
        if parent not in rows:
            raise InvalidJob(f"compensate: job {parent} is not in {self._inserts.engine.url} as seen from here")
        rows[parent] = structs.replace(rows[parent], flow=None)  # to cancel or retry the flow leaves it alone
        new = with_own_payload(self._inserts.services.payloads, new)
        own = [structs.replace(edge, child=new.id) for edge in edges]
        own.append(Dependency(parent, new.id, "only"))
        open_ones = [other for other in earlier if other in rows and rows[other].state not in FINAL]
        own += [Dependency(new.id, other, "run") for other in open_ones[-1:]]
        job, is_same = self._stored(new, own, rows, parent)
        if not is_same:
            raise InvalidJob(
                f"job {parent} has a compensation {name!r} from an earlier attempt, with another call; "
                "register the same call in every attempt: take what may differ from a step"
            )
        return job

    def _rows(self, *ids: str) -> dict[str, JobRow]:
        return {row.id: row for row in self._inserts.engine.queries.get(ids, light=True)}

    def _stored(
        self, new: NewJob, edges: Sequence[Dependency], rows: dict[str, JobRow], parent: str
    ) -> tuple[Job[Any], bool]:
        """The job, inserted unless it exists, and whether its call is this one."""
        services = self._inserts.services
        if new.id not in rows:
            graph = graph_insert([in_flow_of(rows[parent], new)], edges)
            with contextlib.suppress(DuplicateJob):  # another attempt of the same job was quicker
                return self._inserts.insert_graph(graph)[0], True
        found = services.row(new.id, light=False)
        return Job(services, found), is_same_call(services.payloads, found, new)

    def _new(
        self,
        call: Call[Any],
        now: int,
        what: str,
        job_id: str | None = None,
        after: Sequence[str] = (),
        limits: Sequence[Limit] = (),
    ) -> tuple[NewJob, Sequence[Dependency]]:
        options = call.options
        if options.connection is not UNSET:
            raise InvalidJob(f"{what}: a running job inserts it on a connection of headrace; leave connection out")
        if options.parent not in (UNSET, None):
            raise InvalidJob(f"{what}: no other job can wait for it; leave parent out")
        with around(self._inserts.hooks, [call]) as ([changed], _):
            new, rule, edges = self._inserts.new_job(changed, now, job_id, after, None, limits)
        if rule is not None:
            raise not_itself(call)
        return new, edges

    def _child_of(
        self, call: Call[Any], parent: str, now: int, job_id: str, after: Sequence[str], limits: Sequence[Limit]
    ) -> tuple[NewJob, list[Dependency]]:
        new, edges = self._new(call, now, "spawn", job_id, after, limits)
        if any(edge.parent == parent for edge in edges):
            raise InvalidJob(
                f"spawn: job {parent} waits for the jobs it spawns, so they can't wait for it: "
                f"{parent} -> {new.id} -> {parent}; enqueue it with using(after=...) instead"
            )
        return new, [*edges, Dependency(new.id, parent, template_of(call.task, self._inserts.max_payload).policy)]

"""From a call to a stored job: options resolved, arguments checked and encoded, committed with others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from msgspec import UNSET, structs

from headrace.core.clock import Clock
from headrace.core.codec import codec
from headrace.core.codec.encode import too_large
from headrace.core.codec.result_refs import MARK
from headrace.core.jobs import ids
from headrace.core.jobs.budgets import with_flow_budget
from headrace.core.jobs.dependencies import Dependency, FlowRow, Policy
from headrace.core.jobs.records import JobRow, NewJob
from headrace.core.jobs.states import State
from headrace.core.jobs.unique_rules import InsertResult, UniqueInsert, UniqueRule
from headrace.core.queues.limits import Limit
from headrace.core.tasks.trace_context import plain
from headrace.core.text import short
from headrace.engines.protocol.engine import Engine
from headrace.engines.shared.group_commit import GroupCommit
from headrace.errors import AppClosed, DuplicateJob, InvalidJob, PayloadTooLarge
from headrace.runtime.budgets import open_budget
from headrace.runtime.context.trace import mark, with_shared_correlation
from headrace.runtime.jobs.async_twin import in_thread
from headrace.runtime.jobs.hooks import Hooks
from headrace.runtime.jobs.job import SPOOLED, Job
from headrace.runtime.jobs.rows import as_row
from headrace.runtime.jobs.services import JobServices
from headrace.runtime.jobs.task import Call, Mapped
from headrace.runtime.jobs.tracing import Tracer, atraced, traced
from headrace.runtime.payloads.payloads import Payloads, limit_of
from headrace.runtime.submit import archived_parents
from headrace.runtime.submit.async_batches import batch_of_loop
from headrace.runtime.submit.children import Children
from headrace.runtime.submit.dependencies import GraphInsert, edges_of, graph_insert, rows_of, undecided
from headrace.runtime.submit.enqueue_hooks import ahooked, ahooked_many, around, hooked, hooked_many
from headrace.runtime.submit.errors import RefusalText, not_itself, refuse, refuse_too_many_results
from headrace.runtime.submit.template import lane_in, tags_of, template_of

if TYPE_CHECKING:
    from headrace.core.flows.graph import Node
    from headrace.core.settings.settings import Settings
    from headrace.runtime.spool.spool import Spool
    from headrace.runtime.submit.async_batches import Batches


class Submitter:
    """Stores calls as jobs."""

    mapped: Mapped  # set by the app, because flows import this module

    def __init__(
        self, engine: Engine, clock: Clock, settings: Settings, services: JobServices, spool: Spool | None = None
    ) -> None:
        self.max_payload = settings.max_payload
        self.retry = settings.retry
        self.closed = False
        self._services = services
        self._cipher = services.cipher
        self._payloads = services.payloads
        self._limit = limit_of(services.payloads, settings)
        self.words = services.words
        self._hash_key = b"" if services.cipher is None else services.cipher.hash_key
        self.intercept: Callable[[Job[Any]], None] | None = None
        self.tracer: Tracer | None = None
        self.hooks = Hooks()
        self.children = Children(self)
        self._home = engine
        self.attach(engine, clock, spool)

    def attach(self, engine: Engine, clock: Clock, spool: Spool | None = None) -> None:
        """Use this engine from now on. Tasks refer to the submitter, so all of them follow."""
        self._engine = engine
        self._clock = clock
        self._insert = engine.insert if spool is None else spool.insert
        self._inserts: GroupCommit[NewJob, InsertResult] = GroupCommit(self._insert)
        self._unique_inserts: GroupCommit[UniqueInsert, InsertResult] = GroupCommit(self._insert_unique)
        self._insert_batches: Batches = WeakKeyDictionary()
        self._unique_batches: Batches = WeakKeyDictionary()

    @property
    def services(self) -> JobServices:
        return self._services

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def encrypts(self) -> bool:
        return self._cipher is not None

    def new_id(self) -> str:
        """An id for a new job."""
        return ids.new_id(self._clock.now())

    @traced
    def _submit(self, call: Call[Any]) -> Job[Any]:
        """Insert one job, in one commit with concurrent submissions."""
        new, rule, edges = self.new_job(call, self._clock.now())
        if edges:
            return self.insert_graph(graph_insert([new], edges, None, call.options.connection))[0]
        if rule is not None:
            return self._submit_unique(rule, call, new)
        if self._joins(call):
            self._engine.joined.insert(call.options.connection, [new])
            return self._handle(new)
        return self._stored(call, new, self._inserts.call(new))

    @atraced
    async def _asubmit(self, call: Call[Any]) -> Job[Any]:
        """The same for coroutines, in one commit with concurrent submissions of their event loop."""
        joins = self._joins(call)
        if self.intercept is not None and not joins:
            # An interceptor runs the job at once, which would block the loop.
            return await in_thread(self._submit, call)
        new, rule, edges = self.new_job(call, self._clock.now(), large="whole")
        if self._payloads is not None and self._payloads.is_large(new.payload) and not _replaces(rule):
            new = await in_thread(self._outside, call, new, self._payloads)
        if edges:
            return (await self.ainsert_graph(graph_insert([new], edges, None, call.options.connection)))[0]
        if rule is not None:
            return await self._asubmit_unique(rule, call, new)
        if joins:
            await self._engine.joined.ainsert(call.options.connection, [new])
            return self._handle(new)
        return self._stored(call, new, await batch_of_loop(self._insert_batches, self._insert).call(new))

    def _stored(self, call: Call[Any], new: NewJob, fresh: InsertResult) -> Job[Any]:
        # A generated id can only be taken by this same job, if an insert was repeated.
        if fresh.kind == "taken" and call.options.job_id is not UNSET:
            raise DuplicateJob(new.id)
        return self._intercepted(self._handle(new, fresh))

    def _handle(self, row: NewJob | JobRow, result: InsertResult | None = None) -> Job[Any]:
        if result is not None and result.kind == "spooled" and isinstance(row, NewJob):
            row = as_row(row, SPOOLED)
        return Job(self._services, row)

    def _intercepted(self, job: Job[Any]) -> Job[Any]:
        if self.intercept is not None:
            self.intercept(job)
        return job

    def _insert_unique(self, candidates: Sequence[UniqueInsert], *, all_or_nothing: bool = False) -> list[InsertResult]:
        unique = [candidate.rule for candidate in candidates]
        return self._insert([candidate.job for candidate in candidates], unique=unique, all_or_nothing=all_or_nothing)

    def _submit_unique(self, rule: UniqueRule, call: Call[Any], new: NewJob) -> Job[Any]:
        joins = self._joins(call)
        if joins:
            with RefusalText([call], [new]):
                [result] = self._engine.joined.insert(call.options.connection, [new], unique=[rule])
        else:
            result = self._unique_inserts.call(UniqueInsert(new, rule))
        refuse(call, new, result)
        [job] = self._resulting_jobs([new], [result], joins)
        return self._intercepted(job)

    async def _asubmit_unique(self, rule: UniqueRule, call: Call[Any], new: NewJob) -> Job[Any]:
        joins = self._joins(call)
        if joins:
            with RefusalText([call], [new]):
                [result] = await self._engine.joined.ainsert(call.options.connection, [new], unique=[rule])
        else:
            result = await batch_of_loop(self._unique_batches, self._insert_unique).call(UniqueInsert(new, rule))
        refuse(call, new, result)
        if result.id == new.id:
            return self._handle(new)
        [job] = await in_thread(self._resulting_jobs, [new], [result], joins)
        return job

    def _resulting_jobs(
        self, new_jobs: Sequence[NewJob], results: Sequence[InsertResult], joined: bool
    ) -> list[Job[Any]]:
        """Handles of the jobs that these calls resulted in: one per job, even if several calls resulted in it."""
        others = {result.id for new, result in zip(new_jobs, results, strict=True) if result.id != new.id}
        rows = {row.id: row for row in self._engine.queries.get(sorted(others), light=True)} if others else {}
        jobs: dict[str, Job[Any]] = {}
        for new, result in zip(new_jobs, results, strict=True):
            # A transaction hides its changes until its commit: its handles show the submitted job.
            unseen = joined and result.kind in ("replaced", "rescheduled")
            found: JobRow | None = None if unseen else rows.get(result.id)
            if unseen or result.id not in jobs:
                jobs[result.id] = self._handle(found or structs.replace(new, id=result.id))
        return [jobs[result.id] for result in results]

    @traced
    def _submit_many(self, calls: Iterable[Call[Any]]) -> list[Job[Any]]:
        """Insert all jobs in one commit, or none if any of them is invalid."""
        listed = list(calls)
        new_jobs, rules, edges = self._new_jobs(listed)
        joins = self._all_join(listed)
        if edges:
            return self.insert_graph(graph_insert(new_jobs, edges, None, listed[0].options.connection))
        if rules:
            jobs = self._insert_unique_many(listed, new_jobs, rules, joins)
        elif joins:
            self._engine.joined.insert(listed[0].options.connection, new_jobs)
            jobs = [self._handle(new) for new in new_jobs]
        else:
            jobs = list(map(self._handle, new_jobs, self._insert(new_jobs, all_or_nothing=True))) if new_jobs else []
        if self.intercept is not None:
            for job in jobs:
                self.intercept(job)
        return jobs

    def _insert_unique_many(
        self, calls: list[Call[Any]], new_jobs: list[NewJob], rules: dict[int, UniqueRule], joins: bool
    ) -> list[Job[Any]]:
        unique = list(map(rules.get, range(len(new_jobs))))
        with RefusalText(calls, new_jobs):
            if joins:
                results = self._engine.joined.insert(calls[0].options.connection, new_jobs, unique=unique)
            else:
                results = self._insert(new_jobs, unique=unique, all_or_nothing=True)
        return self._resulting_jobs(new_jobs, results, joins)

    @atraced
    async def _asubmit_many(self, calls: Iterable[Call[Any]]) -> list[Job[Any]]:
        """The same for coroutines."""
        listed = await in_thread(list, calls)
        if not self._all_join(listed):
            return await in_thread(self._submit_many, listed)
        new_jobs, rules, edges = await in_thread(self._new_jobs, listed)
        if edges:
            return await self.ainsert_graph(graph_insert(new_jobs, edges, None, listed[0].options.connection))
        joined, connection = self._engine.joined, listed[0].options.connection
        if not rules:
            await joined.ainsert(connection, new_jobs)
            return [self._handle(new) for new in new_jobs]
        with RefusalText(listed, new_jobs):
            results = await joined.ainsert(connection, new_jobs, unique=list(map(rules.get, range(len(new_jobs)))))
        return await in_thread(self._resulting_jobs, new_jobs, results, True)

    submit = hooked(_submit)
    asubmit = ahooked(_asubmit)
    submit_many = hooked_many(_submit_many)
    asubmit_many = ahooked_many(_asubmit_many)

    def _all_join(self, calls: list[Call[Any]], where: str = "enqueue_many") -> bool:
        """Whether these calls use a transaction of the caller, of which there can be only one."""
        if any(call.options.connection is not calls[0].options.connection for call in calls):
            raise InvalidJob(f"{where}: all jobs must use the same connection, as a transaction has only one")
        return bool(calls) and self._joins(calls[0])

    def _joins(self, call: Call[Any]) -> bool:
        return self._uses_connection(call.options.connection)

    def _uses_connection(self, connection: Any) -> bool:
        # Not in a test that runs its jobs at once, or on its own store: the connection does not lead there.
        return connection is not UNSET and self.intercept is None and self._engine is self._home

    # -- jobs with dependencies

    def prepare(
        self, calls: Sequence[Call[Any]], nodes: Sequence[Node], flow: str, budget: int | None = None
    ) -> GraphInsert:
        """The graph insert that stores the calls of these nodes as one flow."""
        now = self._clock.now()
        row = FlowRow(ids.new_id(now), flow, now)
        with with_shared_correlation(row.id), around(self.hooks, calls) as (changed, _):
            self._all_join(changed, f"flow {short(flow)}")
            drafts = [
                self.new_job(call, now, node.id, node.waits_for, node.policy, node.limits)
                for call, node in zip(changed, nodes, strict=True)
            ]
        for call, (_, rule, _) in zip(changed, drafts, strict=True):
            if rule is not None:
                raise not_itself(call)
        edges = [edge for _, _, some in drafts for edge in some]
        new_jobs = [new for new, _, _ in drafts]
        if budget is not None:
            new_jobs = [structs.replace(new, options=with_flow_budget(new.options, row.id)) for new in new_jobs]
            open_budget(self._engine.document_store, row.id, budget)  # before its jobs: none may run without
        return graph_insert(new_jobs, edges, row, changed[0].options.connection)

    def insert_graph(self, graph: GraphInsert) -> list[Job[Any]]:
        """Insert jobs with their dependencies in one commit. Never in the spool: the parents are unknown there."""
        stored: dict[str, JobRow] = {}
        if self._uses_connection(graph.connection):
            self._engine.joined.insert(graph.connection, graph.new_jobs, edges=graph.edges, flow=graph.flow)
        else:
            graph = archived_parents.insert_graph(self._engine, self._services, graph)
            stored = rows_of(self._engine.queries, undecided(graph))
        jobs: list[Job[Any]] = [self._handle(stored.get(new.id, new)) for new in graph.new_jobs]
        return [self._intercepted(job) for job in jobs]

    async def ainsert_graph(self, graph: GraphInsert) -> list[Job[Any]]:
        """The same for coroutines."""
        if not self._uses_connection(graph.connection):
            return await in_thread(self.insert_graph, graph)
        await self._engine.joined.ainsert(graph.connection, graph.new_jobs, edges=graph.edges, flow=graph.flow)
        return [self._handle(new) for new in graph.new_jobs]

    # -- the job records

    def draft(self, call: Call[Any]) -> NewJob:
        """The job that the call would make now, checked and encoded, but not inserted."""
        # Its payload is copied into many jobs, which end at different times.
        new, _, edges = self.new_job(call, self._clock.now(), large="refused")
        if edges:
            raise InvalidJob(f"{call.task.name}: the call of a schedule can't wait for jobs; nor may a job wait for it")
        return structs.replace(new, metadata=plain(new.metadata))  # each of its jobs gets its own correlation id

    def _new_jobs(self, calls: list[Call[Any]]) -> tuple[list[NewJob], dict[int, UniqueRule], list[Dependency]]:
        """The jobs, the unique rules by position, and the dependencies."""
        now = self._clock.now()
        drafts = list(map(self.new_job, calls, repeat(now), ids.new_ids(now, len(calls))))
        rules = {place: rule for place, (_, rule, _) in enumerate(drafts) if rule is not None}
        edges = [edge for _, _, some in drafts for edge in some]
        if rules and edges:
            raise not_itself(calls[next(iter(rules))])
        return [new for new, _, _ in drafts], rules, edges

    def new_job(
        self,
        call: Call[Any],
        now: int,
        job_id: str | None = None,
        after: Sequence[str] = (),
        policy: Policy | None = None,
        limits: Sequence[Limit] = (),
        *,
        large: Literal["outside", "whole", "refused"] = "outside",
    ) -> tuple[NewJob, UniqueRule | None, Sequence[Dependency]]:
        """The job, its unique rule, and its dependencies.

        A large payload goes outside, into the payload store, unless the caller does that. One over `max_payload` may
        be refused instead.
        """
        if self.closed:
            raise AppClosed
        job_template = template_of(call.task, self.max_payload)
        unique = job_template.unique
        rule = None if unique is None else unique.rule(now)
        if _replaces(rule):
            large = "refused"
        limit = self.max_payload if large == "refused" else self._limit
        try:
            payload = call.task.signature.encode(call.args, call.kwargs, limit=limit)
        except PayloadTooLarge:
            refuse_too_many_results(call, limit)
            raise
        run_at = now + job_template.delay if job_template.run_at is None else job_template.run_at
        has_dependencies = bool(MARK in payload or job_template.after or job_template.parent or after)
        if has_dependencies and unique is not None:
            raise not_itself(call)
        key = None if unique is None else unique.key.of(call.args, call.kwargs, self._hash_key)
        if self._cipher is not None:
            payload = self._cipher.encrypted(payload, "call", job_template.task)
        new = NewJob(
            job_template.job_id or job_id or ids.new_id(now),
            job_template.task,
            job_template.queue,
            State.SCHEDULED if run_at > now else State.PENDING,
            job_template.priority,
            -run_at if job_template.lifo else run_at,
            payload,
            codec.checksum(payload),
            now,
            run_at,
            job_template.max_attempts,
            None if job_template.expires is None else now + job_template.expires,
            job_template.options,
            tags_of(job_template, call.args, call.kwargs),
            mark(job_template.metadata, has_dependencies=has_dependencies),
            now if job_template.job_id else 1,
            key,
            lane_in(job_template, key, limits),
        )
        if self._payloads is not None and large == "outside":
            new = self._outside(call, new, self._payloads)
        return new, rule, edges_of(new.id, payload, job_template, after, policy) if has_dependencies else ()

    def _outside(self, call: Call[Any], new: NewJob, payloads: Payloads) -> NewJob:
        """The job with a reference in place of a large payload."""
        payload = payloads.outside(new.payload, "call", new.id)
        if payload is new.payload:
            return new
        if len(payload) > self.max_payload:  # a reference names the parents of its call
            refuse_too_many_results(call, self.max_payload)
            raise too_large(len(payload), self.max_payload)
        return structs.replace(new, payload=payload, checksum=codec.checksum(payload))


def _replaces(rule: UniqueRule | None) -> bool:
    """Whether an existing job may get the payload of the new one, whose file would go with the new one."""
    return rule is not None and rule.act == "replace"

"""Runs one attempt of one job in the caller: claim, run, settle, as a worker does.

Timeouts are not enforced; `current_job().deadline` shows them. A task with
`isolation="process"` runs here as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from headrace import Headrace, Job
from headrace.core.events.log import COMPLETED, RAN, STARTED, EventGroup
from headrace.core.events.stream import StreamLimits, chunk_lines
from headrace.core.jobs import outcomes
from headrace.core.jobs.budgets import Spending
from headrace.core.jobs.records import Claim, ClaimRequest, JobNote, Lease, Outcome, QueueShare
from headrace.core.jobs.states import Trigger
from headrace.core.jobs.steps import Step, Suspended
from headrace.core.queues.limits import EVERYTHING
from headrace.errors import UnknownTask
from headrace.runtime.budgets import charge
from headrace.runtime.context.current_job import JobContext, current, current_batch
from headrace.runtime.context.joined_steps import JoinedSteps
from headrace.runtime.context.step_store import steps_of_job
from headrace.runtime.jobs.encryption import decrypted_steps, encrypted_note, encrypted_step
from headrace.runtime.jobs.questions import announce
from headrace.runtime.jobs.tracing import Traced
from headrace.runtime.payloads.payloads import limit_of
from headrace.runtime.schedules.fire import fire_due
from headrace.runtime.submit.dependencies import in_their_flows
from headrace.runtime.worker.batch_call import BatchCall
from headrace.runtime.worker.cancel_requests import settle_cancelled
from headrace.runtime.worker.claims import ClaimPlanner, Refusal
from headrace.runtime.worker.events import event_group, noted
from headrace.runtime.worker.execution import RunSpec, RunSpecs, outcome_of_error
from headrace.testing.scopes import function_in_scope, in_own_thread_if_looping

WORKER = "headrace.testing"
_SUSPENDED = (Suspended, BaseExceptionGroup)


class InlineWorker:
    """The test's worker: claims jobs from the app's store and settles them."""

    def __init__(self, app: Headrace) -> None:
        self.clock = app.clock
        self._engine = app.engine
        self._lease = int(app.settings.lease * 1000)
        self._fired = False
        self._dead_letters = app.settings.dead_letters
        self._emits_events = app.settings.events
        self._held: dict[Lease, Claim] = {}
        self._began: dict[Lease, int] = {}
        self.cipher = app.cipher
        self.stream_limits = StreamLimits(app.settings.max_chunk, app.settings.max_stream)
        payloads = app.services.payloads
        limits = (app.settings.timeout, limit_of(payloads, app.settings))
        function_of = functools.partial(function_in_scope, app.submitter.hooks)
        self._planner = ClaimPlanner(app.engine, RunSpecs(app.find_task, *limits, payloads, function_of))

    def next(self) -> InlineAttempt | None:
        """The next due job; schedules fire before the first one, and whenever there is none."""
        attempt = self.claim() if self._fired else None
        while attempt is None:
            fired = fire_due(self._engine)
            attempt = self.claim()
            if not fired.won:
                break
        self._fired = True
        return attempt

    def claim(self) -> InlineAttempt | None:
        """The next due job, if there is one. Expired jobs are cancelled."""
        while True:
            answer = self._engine.exchange([], ClaimRequest(WORKER, 1, self._lease, capabilities=(EVERYTHING,)))
            if answer.claims:
                attempt = self._planned(answer.claims[0])
                if isinstance(attempt, InlineAttempt):
                    if attempt.plan.batch is not None:
                        attempt.others = self._others_like(attempt, attempt.plan.batch.jobs - 1)
                    return attempt
            elif answer.next_at is None or answer.next_at > self.clock.now():
                return None

    def claim_this(self, job: Job[Any]) -> InlineAttempt | Refusal | None:
        """Claim this job, if it can run now; jobs claimed before it are released."""
        share = (QueueShare(job.queue, 100),)
        request = ClaimRequest(WORKER, 100, self._lease, share, others=False, capabilities=(EVERYTHING,))
        others: list[Claim] = []
        claimed = None
        while claimed is None and (claims := self._engine.exchange([], request).claims):
            claimed = next((claim for claim in claims if claim.id == job.id), None)
            others += [claim for claim in claims if claim.id != job.id]
        self.give_back(*others)
        return None if claimed is None else self._planned(claimed)

    def _others_like(self, first: InlineAttempt, most: int) -> list[InlineAttempt]:
        """Claim the other due jobs of its batch; jobs of other tasks are released."""
        found: list[InlineAttempt] = []
        others: list[Claim] = []
        share = (QueueShare(first.claim.queue, most),)
        while most > len(found):
            request = ClaimRequest(WORKER, most, self._lease, share, others=False, capabilities=(EVERYTHING,))
            claims = self._engine.exchange([], request).claims
            for claim in claims:
                is_like = claim.task == first.claim.task and len(found) < most
                attempt = self._planned(claim) if is_like else None
                if isinstance(attempt, InlineAttempt) and attempt.plan.timeout == first.plan.timeout:
                    found.append(attempt)
                elif not isinstance(attempt, Refusal):
                    others.append(claim)
            if not claims:
                break
        self.give_back(*others)
        return found

    def _planned(self, claim: Claim) -> InlineAttempt | Refusal:
        """The attempt of a claim, or why it can't run: its job has failed then, as with a worker.

        In a test, an unknown task raises: a job that stays pending would hide the error.
        """
        self._held[claim.lease] = claim
        self._began[claim.lease] = self.clock.now()
        [found] = self._planner.planned([claim])
        if found is None:
            self.give_back(claim)
            raise UnknownTask(
                f"job {claim.id} is for task {claim.task!r}, which this app does not know; "
                "import the module that registers it, or check the name"
            )
        if isinstance(found, Refusal):
            self.settle(found.outcome(self.clock.now()))
            return found
        return InlineAttempt(self, *found)

    def give_back(self, *claims: Claim) -> None:
        """Release jobs as if they had never been claimed."""
        if claims:
            self.settle(*(outcomes.give_back(claim, self.clock.now()) for claim in claims))

    def settle(self, *done: Outcome, notes: Sequence[JobNote] = ()) -> None:
        groups = self._events(done, notes) if self._emits_events else ()
        settled = outcomes.with_dead_letter(list(done), self._dead_letters)
        answer = self._engine.exchange(in_their_flows(self._engine.queries, settled), None, notes, groups=groups)
        settle_cancelled(self._engine, WORKER, answer.refused, self.clock.now())
        for outcome in done:
            self._held.pop(outcome.lease, None)
            self._began.pop(outcome.lease, None)

    def _events(self, done: Sequence[Outcome], notes: Sequence[JobNote]) -> list[EventGroup]:
        """Emit the events of these runs. Their duration is the time the clock was moved."""
        begun, ended = list[EventGroup](), list[EventGroup]()
        for outcome in done:
            claim = self._held.get(outcome.lease)
            if claim is not None and not outcome.quiet:
                began = self._began[outcome.lease]
                wait, run = max(began - max(claim.created_at, claim.run_at), 0), max(outcome.at - began, 0)
                rows = [(claim.id, claim.attempt, wait, run)]
                is_whole = outcome.event is Trigger.SUCCEED and not notes
                group = functools.partial(event_group, queue=claim.queue, task=claim.task, rows=rows, at=outcome.at)
                begun.append(group(RAN if is_whole else STARTED, worker=WORKER))
                if outcome.event is Trigger.SUCCEED and not is_whole:
                    ended.append(group(COMPLETED, worker=WORKER))
        return [*begun, *noted(notes, self._held, WORKER), *ended]

    def steps(self, claim: Claim) -> list[Step]:
        stored = self._engine.queries.details(claim.id, history=False, logs=0).steps
        return steps_of_job(self._engine.queries, claim.id, decrypted_steps(self.cipher, claim.id, stored))

    def save_step(self, claim: Claim, step: Step) -> bool:
        stored = encrypted_step(self.cipher, claim.id, step)
        if stored.kind == "question":
            announce(self._engine.document_store, claim.id, stored)
        return self._engine.save_step(claim.lease, stored)

    def charge(self, claim: Claim, flow: str, runs: Mapping[int, int]) -> Spending | None:
        return charge(self._engine, claim.id, flow, runs)

    @property
    def joined(self) -> JoinedSteps:
        return JoinedSteps(lambda: self._engine.joined, self.cipher)

    def holds(self, claim: Claim) -> bool:
        rows = self._engine.queries.get([claim.id], light=True)
        return bool(rows) and rows[0].version == claim.version


class InlineAttempt:
    """A claim being run. It is also the worker link of the job's context."""

    def __init__(self, inline_worker: InlineWorker, claim: Claim, plan: RunSpec) -> None:
        self._inline_worker = inline_worker
        self.claim = claim
        self.plan = plan
        timeout = plan.timeout
        deadline = None if timeout is None else self.now() + int(timeout * 1000)
        self.context = JobContext(claim, deadline, self, plan.batch is not None)
        self.notes: list[JobNote] = []
        self.error: BaseException | None = None
        self.trace: Traced | None = None
        self.others: list[InlineAttempt] = []  # of its batch

    # -- running it

    @property
    def claims(self) -> list[Claim]:
        """Its claim, and those of the others of its batch."""
        return [attempt.claim for attempt in (self, *self.others)]

    def run(self) -> None:
        """Run and settle it here, with its batch; a coroutine gets its own event loop."""
        if self.plan.batch is not None:
            self._run_batch()
            return
        with _Job(self), self._span():
            try:
                value = self._call()
                if self.plan.task.is_async:
                    value = in_own_thread_if_looping(lambda: asyncio.run(value))
                outcome = self._success(value)
            except (Exception, SystemExit, asyncio.CancelledError, *_SUSPENDED) as error:  # recorded, as by a worker
                outcome = self._failure(error)
        self._settle(outcome)

    async def arun(self) -> None:
        """The same, with coroutines awaited on the running event loop."""
        if self.plan.batch is not None:
            await self._arun_batch()
            return
        with _Job(self), self._span():
            try:
                value = self._call()
                outcome = self._success(await value if self.plan.task.is_async else value)
            except (Exception, SystemExit, *_SUSPENDED) as error:  # recorded, as by a worker
                outcome = self._failure(error)
        self._settle(outcome)

    def _run_batch(self) -> None:
        with _InlineBatch((self, *self.others)) as call:
            try:
                if call.items:
                    value = self.plan.function(call.items)
                    if self.plan.task.is_async:
                        value = in_own_thread_if_looping(lambda: asyncio.run(value))
                    call.returned(value)
            except (Exception, SystemExit, asyncio.CancelledError, *_SUSPENDED) as error:
                call.raised(error)

    async def _arun_batch(self) -> None:
        with _InlineBatch((self, *self.others)) as call:
            try:
                if call.items:
                    value = self.plan.function(call.items)
                    call.returned(await value if self.plan.task.is_async else value)
            except (Exception, SystemExit, *_SUSPENDED) as error:
                call.raised(error)

    def settle_value(self, value: Any) -> None:
        """Settle what the call of its batch has returned or raised for it."""
        try:
            outcome = self._failure(value) if isinstance(value, BaseException) else self._success(value)
        except Exception as error:
            outcome = self._failure(error)
        self._settle(outcome)

    def _span(self) -> AbstractContextManager[object]:
        if self.plan.tracer is None:
            return contextlib.nullcontext()
        self.trace = self.plan.tracer.begin(self.claim, self.context.log)
        return self.trace

    def give_up(self) -> None:
        """The run was interrupted (Ctrl-C, a test's timeout): release the job."""
        self._settle(outcomes.release(self.claim, "its run was broken off", self.now()))

    def _settle(self, outcome: Outcome) -> None:
        if self.trace is not None:
            self.trace.end(outcome)
        cipher = self._inline_worker.cipher
        self._inline_worker.settle(outcome, notes=[encrypted_note(cipher, note) for note in chunk_lines(self.notes)])

    def _call(self) -> Any:
        if self.trace is not None:
            self.trace.link_predecessors()
        args, kwargs = self.plan.arguments(self.claim)
        return self.plan.function(*args, **kwargs)

    def _success(self, value: Any) -> Outcome:
        return self.context.enclosed(self.plan.success(self.claim, value, self.now()))

    def _failure(self, error: BaseException) -> Outcome:
        self.error = error
        return self.context.enclosed(
            in_own_thread_if_looping(lambda: outcome_of_error(self.plan, self.claim, error, self.now))
        )

    # -- the worker link of the context

    worker = WORKER

    def now(self) -> int:
        return self._inline_worker.clock.now()

    def note(self, note: JobNote) -> None:
        self.notes.append(note)

    @property
    def largest(self) -> int:
        return self.plan.max_result

    @property
    def stream_limits(self) -> StreamLimits:
        return self._inline_worker.stream_limits

    def has_stream_room(self, lease: Lease, wait: float) -> bool:
        return True

    def steps(self, claim: Claim) -> list[Step]:
        return self._inline_worker.steps(claim)

    def save_step(self, claim: Claim, step: Step) -> bool:
        return self._inline_worker.save_step(claim, step)

    def charge(self, claim: Claim, flow: str, runs: Mapping[int, int]) -> Spending | None:
        return self._inline_worker.charge(claim, flow, runs)

    @property
    def joined(self) -> JoinedSteps:
        return self._inline_worker.joined

    def renew(self, claim: Claim) -> bool:
        return self._inline_worker.holds(claim)


class _Job:
    """Sets `current_job()` to this attempt, and releases the job if the run is interrupted."""

    def __init__(self, attempt: InlineAttempt) -> None:
        self._attempt = attempt

    def __enter__(self) -> None:
        self._token = current.set(self._attempt.context)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        current.reset(self._token)
        if kind is not None:
            self._attempt.give_up()


class _InlineBatch:
    """Makes the call of a batch and settles its attempts, or releases them if it is interrupted."""

    def __init__(self, attempts: Sequence[InlineAttempt]) -> None:
        self._attempts = attempts

    def __enter__(self) -> BatchCall[InlineAttempt]:
        self._token = current_batch.set(())
        self._call = BatchCall(self._attempts)
        return self._call

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        current_batch.reset(self._token)
        for attempt in self._attempts:
            attempt.settle_value(self._call.values[attempt]) if kind is None else attempt.give_up()

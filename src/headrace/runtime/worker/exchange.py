"""A worker's exchange with the store: it sends outcomes and receives claims, one call per exchange."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from headrace.core.jobs import outcomes
from headrace.core.jobs.records import ClaimRequest, ExchangeResult, JobNote, JobRow, Outcome, QueueShare
from headrace.core.jobs.states import State
from headrace.core.queues.fair_share import FairShare
from headrace.core.queues.slow_start import SlowStart
from headrace.core.settings.settings import Settings
from headrace.core.text import counted
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.context.logs import about
from headrace.runtime.process.outage_log import outage_log
from headrace.runtime.submit.dependencies import in_their_flows
from headrace.runtime.worker.attempt import Attempt
from headrace.runtime.worker.attempt_log import log_failure, log_finished
from headrace.runtime.worker.cancel_requests import cancel_requests
from headrace.runtime.worker.claims import ClaimPlanner, Refusal
from headrace.runtime.worker.events import AttemptEvents
from headrace.runtime.worker.execution import RunSpecs, describe
from headrace.runtime.worker.prefetch import Prefetch
from headrace.runtime.worker.results import has_result_refs
from headrace.runtime.worker.state import WorkerState
from headrace.runtime.worker.task_lookup import TaskLookup

log = logging.getLogger("headrace.worker")
T = TypeVar("T")

STALLED = 0.2
_SETTLE_WAIT = 0.025
_COMPLETED = State.COMPLETED  # a lookup in the class is slow


class WorkerExchange:
    """The claims a worker holds, and how many more it can take."""

    def __init__(
        self,
        worker_id: str,
        engine: Engine,
        worker_state: WorkerState,
        run_specs: RunSpecs,
        settings: Settings,
        at_most: int | None,
        task_names: Callable[[], Iterable[str]],
    ) -> None:
        self._worker_id = worker_id
        self._engine = engine
        self.outage_log = outage_log(engine)
        self._worker_state = worker_state
        self.task_lookup = TaskLookup(task_names, run_specs.knows)
        self._planner = ClaimPlanner(engine, run_specs)
        self._lease_ms = int(settings.lease * 1000)
        self._dead_letters = settings.dead_letters
        self._concurrency = settings.concurrency
        self._at_most = _least(at_most, settings.max_jobs)
        self._fair_share = FairShare(settings.queues or {}, settings.queue_order)
        self._capabilities = settings.capabilities
        self._strategy = settings.strategy
        self._serves_all = settings.queues is None
        self._prefetch = Prefetch(settings.concurrency, settings.prefetch if at_most is None else 0)
        self.slow_start = SlowStart()
        self._progress = (0, 0.0)
        self._last_exchange = 0.0
        self._in_doubt = False  # the store may have given us claims in an answer we never got
        self._unanswered: list[Attempt] = []  # sent, but not acknowledged
        self._attempt_events = AttemptEvents(worker_id, worker_state, enabled=settings.events)
        self.claimed = self.completed = self.failed = 0
        self.first: str | None = None  # the queue to claim from next, before any fair share
        self.store_is_empty = False  # as of the last exchange

    @property
    def job_limit_reached(self) -> bool:
        """Whether the worker has taken all the jobs it may."""
        return self._at_most is not None and self.claimed >= self._at_most

    @property
    def is_drained(self) -> bool:
        """Whether nothing is left to run, here or in the store."""
        return self.store_is_empty and not self._worker_state.held()

    @property
    def has_events(self) -> bool:
        """Whether events wait to be sent soon, even if no run ends."""
        return self._attempt_events.has_events

    def capacity(self) -> int:
        """How many jobs to claim now: the free slots, plus prefetch while jobs are short."""
        worker_state, ahead = self._worker_state, self._prefetch.ahead
        worker_state.low_water = ahead // 2
        if worker_state.waiting > worker_state.low_water:
            return 0
        capacity = max(
            self._concurrency
            + ahead
            - worker_state.running
            - len(worker_state.cancelled_coroutines)
            - worker_state.waiting
            - len(worker_state.gathering),
            0,
        )
        return self._allowed(capacity)

    def _allowed(self, jobs: int) -> int:
        return self.slow_start.allows(jobs if self._at_most is None else min(jobs, self._at_most - self.claimed))

    def settle_wait(self) -> float:
        """Seconds that outcomes may wait for the next claim, so that one call does both; mostly 0."""
        if self._worker_state.waiting <= self._worker_state.low_water:
            return 0.0
        return self._last_exchange + _SETTLE_WAIT - time.monotonic()

    def exchange(self, capacity: int, only: tuple[QueueShare, ...] = ()) -> tuple[list[Attempt], int | None]:
        """Send the outcomes and claim up to `capacity` jobs, or `only` these; returns them, and when more are due."""
        worker_state = self._worker_state
        self.store_is_empty = False
        if self._in_doubt:
            self._release_unknown_claims()
        if self._unanswered:
            self._confirm_settled()
        done, notes = self._taken()
        self._note_starvation()
        self._prefetch.finished(self._runs_of(done))
        all_idle = not worker_state.waiting and not worker_state.running
        shares = only or self._fair_share.shares(capacity)
        if self.first is not None and capacity > 0 and not only:
            shares, self.first = (QueueShare(self.first, 1), *shares), None
        others = self._serves_all and not only
        request = ClaimRequest(
            *(self._worker_id, capacity, self._lease_ms, shares, others, self._capabilities, self._strategy),
            known=self.task_lookup.tasks,
        )
        sent_at = time.monotonic()
        try:
            groups = self._attempt_events.events(done, notes)
            answer = self._engine.exchange(self._sent(done), request, notes, groups=groups)
        except EngineUnavailable:
            self._in_doubt = capacity > 0
            self._unanswered = done
            worker_state.done.extendleft(reversed(done))
            worker_state.notes.extendleft(reversed(notes))
            raise
        except Exception:
            self._in_doubt = capacity > 0  # the claim may have succeeded although the outcomes were refused
            if not done and not notes:  # the store refuses the claim itself: the worker pauses before the next
                raise
            log.exception("worker %s: an exchange was refused; sending its outcomes one by one", self._worker_id)
            self._store_one_by_one(notes)
            self._settle_one_by_one(done)
            return [], worker_state.now()  # it may have claimed nothing: try again at once
        if groups or done:
            self._attempt_events.delivered()
        self._last_exchange = time.monotonic()
        if capacity > 0:
            self._prefetch.note_exchange(self._last_exchange - sent_at, all_idle=all_idle)
        self._answered(done, answer, capacity)
        return self._register_claims(answer, capacity), answer.next_at

    def _runs_of(self, done: list[Attempt]) -> int:
        if not self._worker_state.gathering.is_used:
            return len(done)
        return len({id(attempt.batch or attempt) for attempt in done})

    def _taken(self) -> tuple[list[Attempt], list[JobNote]]:
        """The outcomes to send, and then the notes: none of a run that has ended comes later."""
        worker_state = self._worker_state
        done, notes = _take_all(worker_state.done), _take_all(worker_state.notes)
        return done, notes + worker_state.streams.take({attempt.lease for attempt in done})

    def _answered(self, done: list[Attempt], answer: ExchangeResult, capacity: int) -> None:
        self._settled(done, answer.refused)
        self._worker_state.streams.stored(self._worker_state.attempts)
        if log.isEnabledFor(logging.DEBUG):
            self._log_exchange(done, answer, capacity)

    def _sent(self, done: list[Attempt]) -> list[Outcome]:
        decided = outcomes.with_dead_letter([attempt.outcome for attempt in done], self._dead_letters)
        return in_their_flows(self._engine.queries, decided)

    def _log_exchange(self, done: list[Attempt], answer: ExchangeResult, capacity: int) -> None:
        """Log an exchange, and each job it claimed."""
        chosen = Counter(claim.queue for claim in answer.claims)
        of_queues = ", ".join(f"{jobs} of {queue}" for queue, jobs in chosen.items()) or "none"
        text = "settled %d jobs, claimed %d of %d (%s), %d waiting here, more at %s"
        counts = (len(done), len(answer.claims), capacity, of_queues, self._worker_state.waiting, answer.next_at)
        log.debug(text, *counts, extra={"event": "worker.exchange", "worker": self._worker_id})
        for claim in answer.claims:
            extra = about(claim, self._worker_id, "job.claimed")
            log.debug("job %s (%s) claimed", claim.id, claim.task, extra=extra)

    def planned(self, attempts: list[Attempt]) -> list[Attempt]:
        """The attempts that can run, with their run specs; the others are released or fail."""
        try:
            planned = self._planner.planned([attempt.claim for attempt in attempts])
        except EngineUnavailable as error:  # not begun, so no runner would release them
            with_refs = [attempt for attempt in attempts if has_result_refs(attempt.claim)]
            jobs = counted(len(with_refs), "job")
            log.warning("can't read the parent results of %s, to be released: %s", jobs, error)
            self.give_back(with_refs)
            return self.planned([attempt for attempt in attempts if not has_result_refs(attempt.claim)])
        except Exception:
            self.give_back(attempts)  # otherwise the heartbeat would renew their leases, and nothing would run them
            raise
        runnable = []
        for attempt, found in zip(attempts, planned, strict=True):
            if isinstance(found, tuple):
                attempt.claim, attempt.plan = found
                runnable.append(attempt)
            elif found is None:  # its function was removed meanwhile
                self.task_lookup.forget(attempt.claim.task)
                self.give_back([attempt])
            else:
                self._refuse(attempt, found)
        return runnable

    def runs(self, attempts: list[Attempt]) -> list[Attempt]:
        """An attempt for each run that can start now: of these, and of complete batches."""
        gathering = self._worker_state.gathering
        ready = gathering.add(self.planned(attempts))
        return ready + gathering.due(all_of_them=self.job_limit_reached) if gathering else ready

    def fill(self) -> bool:
        """Claim more for incomplete batches from their queues, unless jobs of other tasks wait; whether all came."""
        if self._worker_state.waiting > self._worker_state.low_water:
            return False
        wanted = self._worker_state.gathering.wanted()
        limit = self._allowed(sum(wanted.values()))
        if limit <= 0:
            return False
        was_empty = self.store_is_empty
        attempts, _ = self.exchange(limit, tuple(QueueShare(queue, jobs) for queue, jobs in wanted.items()))
        self.store_is_empty = was_empty and not attempts
        self._worker_state.place(self.runs(attempts))
        return len(attempts) == limit

    def idle(self) -> None:
        self._prefetch.idle()

    def give_back(self, attempts: Iterable[Attempt] = ()) -> None:
        """Release these attempts and all that no runner has begun."""
        worker_state, now = self._worker_state, self._worker_state.now()
        unbegun = [*attempts, *worker_state.withdraw_unstarted()]
        released = sum(worker_state.end_without_slot(each, outcomes.give_back(each.claim, now)) for each in unbegun)
        if released:
            self.claimed -= released  # they count for the worker that runs them
            worker_state.ring()

    def give_back_if_stalled(self) -> None:
        """Release prefetched jobs if none of them gets started, so that other workers can take them."""
        began, at = self._progress
        if not self._worker_state.waiting or self._worker_state.began != began:
            self._progress = (self._worker_state.began, time.monotonic())
        elif time.monotonic() - at >= STALLED:
            self.give_back()
            self._prefetch.stalled()

    def _release_unknown_claims(self) -> None:
        """Release claims from an exchange whose answer was lost: only those that we neither hold nor have begun."""
        held = list(self._worker_state.attempts)
        for job_id in self._engine.release_unknown_claims(self._worker_id, held):
            log.warning("job %s: released, the answer with its claim was lost", job_id)
        self._in_doubt = False

    def _confirm_settled(self) -> None:
        """Find outcomes stored by an exchange whose answer was lost: sending them again would be refused."""
        ids = [attempt.claim.id for attempt in self._unanswered]
        rows = {row.id: row for row in self._engine.queries.get(ids, light=True)}
        taken = [
            attempt for attempt in self._unanswered if self._is_settled(rows.get(attempt.claim.id), attempt.outcome)
        ]
        for attempt in taken:
            self._worker_state.done.remove(attempt)
        if taken:
            self._attempt_events.delivered()  # stored in the same commit
        self._settled(taken, [])
        self._unanswered = []

    def _is_settled(self, row: JobRow | None, outcome: Outcome) -> bool:
        if row is None or outcome.finished_at is None:  # an unfinished job may have moved on since
            return False
        state = outcome.state if row.state is not State.WAITING else State.WAITING  # WAITING if it has open children
        settled = (row.version, row.state, row.worker, row.finished_at)
        return settled == (outcome.version + 1, state, self._worker_id, outcome.finished_at)

    def _register_claims(self, answer: ExchangeResult, capacity: int) -> list[Attempt]:
        self.slow_start.answered(capacity)
        self.task_lookup.settle()
        claims = answer.claims
        attempts = self._worker_state.claimed(claims)
        self.claimed += len(claims)
        come_again = answer.next_at is not None and answer.next_at <= self._worker_state.now()
        self.store_is_empty = capacity > 0 and not claims and not come_again
        if claims:
            self._fair_share.took(Counter([claim.queue for claim in claims]))
            self._note_starvation()
            if not self._worker_state.waiting:  # time without waiting jobs must not count as a stall
                self._progress = (self._worker_state.began, time.monotonic())
        if self._serves_all and answer.queues:
            self._fair_share.serve(answer.queues)
        if capacity > 0:
            self._fair_share.weigh(answer.weights)
        return attempts

    def _note_starvation(self) -> None:
        if not self._worker_state.waiting and self._worker_state.running < self._concurrency:
            self._prefetch.starved()

    def _settled(self, done: list[Attempt], refused: list[Outcome]) -> None:
        if requests := cancel_requests(self._engine.queries, self._worker_id, [outcome.lease for outcome in refused]):
            done, refused = self._worker_state.cancel_ended(done, refused, requests)
        finished: list[Attempt] = []
        lost = {outcome.lease for outcome in refused}
        for attempt in done:
            self._worker_state.settled(attempt)
            state, is_accepted = attempt.outcome.state, not (lost and attempt.lease in lost)
            if state is _COMPLETED:
                self.completed += is_accepted
            elif state in (State.FAILED, State.RETRYING):
                self.failed += is_accepted and state is State.FAILED
                log_failure(attempt, self._worker_id)
                continue
            if attempt.started:
                finished.append(attempt)
        log_finished(finished, self._worker_id)
        for outcome in refused:
            log.warning(
                "job %s: lease lost, a late %s was refused",
                outcome.id,
                outcome.event,
                extra={"job": outcome.id, "event": "job.lease_lost"},
            )

    def _store_one_by_one(self, notes: list[JobNote]) -> None:
        """Send notes singly, before the outcomes of their runs: one that the store refuses must not lose the others."""
        left = deque(notes)
        request = ClaimRequest(self._worker_id, 0, self._lease_ms)
        while left:
            try:
                self._engine.exchange((), request, [left[0]])
            except EngineUnavailable:
                self._worker_state.notes.extendleft(reversed(left))
                raise
            except Exception:
                log.exception("job %s: can't store its progress or a line of it", left[0].id)
            left.popleft()
        self._worker_state.streams.stored(self._worker_state.attempts)

    def _settle_one_by_one(self, done: list[Attempt]) -> None:
        """Send outcomes singly: one that the store refuses must not block the others."""
        left = deque(done)
        try:
            while left:
                self._settle_one(left[0])
                left.popleft()
        finally:
            self._worker_state.done.extendleft(reversed(left))  # the store became unavailable meanwhile

    def _settle_one(self, attempt: Attempt) -> None:
        request = ClaimRequest(self._worker_id, 0, self._lease_ms)
        try:
            groups = self._attempt_events.events([attempt], ())
            refused = self._engine.exchange(self._sent([attempt]), request, groups=groups).refused
            self._attempt_events.delivered()
        except EngineUnavailable:
            raise
        except Exception as error:
            log.exception("job %s: can't store its outcome; recording the job as failed", attempt.claim.id)
            attempt.outcome = _unstorable(attempt.outcome, error)
            failed = outcomes.with_dead_letter([attempt.outcome], self._dead_letters)
            refused = self._engine.exchange(failed, request).refused
        self._settled([attempt], refused)

    def _refuse(self, attempt: Attempt, refusal: Refusal) -> None:
        claim = attempt.claim
        log.warning("job %s: can't run it: %s", claim.id, refusal.error, extra=about(claim, self._worker_id))
        self._worker_state.end_without_slot(attempt, refusal.outcome(self._worker_state.now()))
        self._worker_state.ring()


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _unstorable(outcome: Outcome, error: Exception) -> Outcome:
    return outcomes.fail(outcome.lease, "unstorable_outcome", describe(error), outcome.max_attempts, outcome.at)


def _take_all(items: deque[T]) -> list[T]:
    # Others only add to it meanwhile.
    return [items.popleft() for _ in range(len(items))]

"""A state machine against the model: any order of any operations, by two workers, while time moves."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headrace.core.jobs.records import Claim, Filter, JobRow, JobUpdate, Outcome
from headrace.core.jobs.states import State, Trigger
from tests.conformance.core.model import Model, ModelJob
from tests.support.builders import (
    NOW,
    fail,
    give_up,
    kinds,
    lease_of,
    new_job,
    only,
    park,
    release,
    retry,
    rows,
    snooze,
    succeed,
    want,
    worker_row,
)
from tests.support.engines import new_store

QUEUES = ("a", "b")
LEASE = 100
DELAYS = st.sampled_from([-50, 0, 1, 40, 150, 400])
SETTLEMENTS = st.sampled_from(["succeed", "retry", "snooze", "release", "park", "fail", "give up"])
PICKS = st.integers(0, 10_000)  # taken modulo what there is
WORKERS = st.sampled_from([0, 1])


class StoreMachine(RuleBasedStateMachine):
    """Does the same to a store and to the model, and compares."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.at_end = ExitStack()
        store = new_store(kind, self.at_end)
        self.engines = (store.open(), store.open())
        self.model = Model()
        self.now = NOW
        self.submitted = 0
        self.reused = 0
        self.leases: list[Claim] = []  # every lease ever handed out, most of them stale
        self.settled: set[tuple[str, int]] = set()
        self.seen: dict[str, JobRow] = {}

    def teardown(self) -> None:
        self.at_end.close()

    # -- clients

    @initialize(count=st.integers(1, 4))
    def there_are_jobs(self, count: int) -> None:
        self.submit(count, "a", 0, 0, False, 2, None)

    @rule(
        count=st.integers(1, 3),
        queue=st.sampled_from(QUEUES),
        delay=DELAYS,
        priority=st.integers(-1, 1),
        lifo=st.booleans(),
        attempts=st.integers(1, 3),
        expires=st.sampled_from([None, None, 30, 300]),
    )
    def submit(
        self, count: int, queue: str, delay: int, priority: int, lifo: bool, attempts: int, expires: int | None
    ) -> None:
        jobs = [
            new_job(
                f"j{self.submitted + number}",
                queue=queue,
                run_at=self.now + delay,
                created_at=self.now,
                priority=priority,
                lifo=lifo,
                max_attempts=attempts,
                expires_at=None if expires is None else self.now + expires,
            )
            for number in range(count)
        ]
        self.submitted += count
        assert kinds(self.engines[0].insert(jobs, now=self.now)) == [self.model.insert(job) for job in jobs]

    @precondition(lambda self: self.model.jobs)
    @rule(pick=PICKS)
    def submit_again(self, pick: int) -> None:
        known = new_job(self._any_job(pick).id, queue="b", priority=1)
        assert kinds(self.engines[1].insert([known], now=self.now)) == ["taken"]

    @precondition(lambda self: len(self.model.jobs) < self.submitted)
    @rule(pick=PICKS, queue=st.sampled_from(QUEUES))
    def submit_under_a_deleted_id(self, pick: int, queue: str) -> None:
        """Versions of an id are never given twice, so that workers of the deleted job stay fenced out."""
        self.reused += 1
        gone = [name for number in range(self.submitted) if (name := f"j{number}") not in self.model.jobs]
        job = new_job(
            gone[pick % len(gone)],
            queue=queue,
            run_at=self.now,
            created_at=self.now,
            version=self.reused * 1_000_000,
        )
        assert kinds(self.engines[1].insert([job], now=self.now)) == [self.model.insert(job)] == ["new"]

    # -- workers

    @rule(worker=WORKERS, queue=st.sampled_from(QUEUES), limit=st.integers(1, 4))
    def claim_from_one_queue(self, worker: int, queue: str, limit: int) -> None:
        self.model.pass_time(self.now)
        expected = self.model.claimable(queue)[:limit]
        answer = self.engines[worker].exchange([], only(queue, limit, f"w{worker}"), now=self.now)
        assert [claimed.id for claimed in answer.claims] == expected
        self._take(answer.claims, self.now + 30_000)

    @rule(worker=WORKERS, limit=st.integers(1, 5))
    def claim_from_any_queue(self, worker: int, limit: int) -> None:
        self.model.pass_time(self.now)
        self._claim_any(worker, limit, [])

    @rule(
        worker=WORKERS,
        chosen=st.lists(st.tuples(PICKS, SETTLEMENTS, DELAYS), min_size=1, max_size=4),
        then_claim=st.integers(0, 2),
        recent=st.booleans(),
    )
    @precondition(lambda self: self.leases)
    def settle(self, worker: int, chosen: list[tuple[int, str, int]], then_claim: int, recent: bool) -> None:
        """By whoever: leases are picked from all that ever were, so many of these are late, some twice."""
        pool = self.leases[-4:] if recent else self.leases
        outcomes = [self._outcome(pool[pick % len(pool)], kind, delay) for pick, kind, delay in chosen]
        refused = []
        for outcome in outcomes:
            if self.model.settle(outcome):
                key = (outcome.id, outcome.version)
                assert key not in self.settled, "a lease was settled twice"
                self.settled.add(key)
            else:
                refused.append(outcome)
        if then_claim:
            self.model.pass_time(self.now)
            found = self._claim_any(worker, then_claim, outcomes)
        else:
            found = self.engines[worker].exchange(outcomes, None, now=self.now).refused
        assert sorted(map(repr, found)) == sorted(map(repr, refused))

    @rule(worker=WORKERS, picks=st.lists(PICKS, min_size=1, max_size=4, unique=True), ttl=st.sampled_from([50, 500]))
    @precondition(lambda self: self.leases)
    def renew(self, worker: int, picks: list[int], ttl: int) -> None:
        leases = {lease_of(self.leases[pick % len(self.leases)]) for pick in picks}
        held = {lease for lease in leases if self.model.renew(lease.id, lease.version, self.now + ttl, self.now)}
        answer = self.engines[worker].renew(worker_row(f"w{worker}"), list(leases), ttl, now=self.now)
        assert answer.lost == leases - held

    @rule(worker=WORKERS, limit=st.integers(1, 5))
    def reap(self, worker: int, limit: int) -> None:
        overdue = self.model.overdue(self.now)
        reaped = self.engines[worker].reap(limit, now=self.now)
        assert len(reaped) == min(limit, len(overdue))
        assert {job.id for job in reaped} <= overdue
        assert {job.id: job.state for job in reaped} == {job.id: self.model.reap(job.id) for job in reaped}

    # -- operators

    @precondition(lambda self: self.model.jobs)
    @rule(event=st.sampled_from([Trigger.CANCEL, Trigger.REVIVE, Trigger.PROMOTE_NOW, Trigger.DELETE]), pick=PICKS)
    def move_one(self, event: Trigger, pick: int) -> None:
        chosen = self._any_job(pick).id
        moved = self.engines[0].queries.move(Filter(ids=(chosen,)), event, 5, "ann", now=self.now)
        assert moved == self.model.move(lambda job: job.id == chosen, event, 5, self.now)

    @rule(
        event=st.sampled_from([Trigger.CANCEL, Trigger.REVIVE, Trigger.PROMOTE_NOW, Trigger.DELETE]),
        queue=st.sampled_from(QUEUES),
        limit=st.integers(1, 3),
    )
    def move_some(self, event: Trigger, queue: str, limit: int) -> None:
        moved = self.engines[1].queries.move(Filter(queue=queue), event, limit, now=self.now)
        assert sorted(moved) == sorted(self.model.move(lambda job: job.queue == queue, event, limit, self.now))

    @precondition(lambda self: self.model.jobs)
    @rule(
        pick=PICKS,
        priority=st.none() | st.integers(-1, 1),
        delay=st.none() | DELAYS,
        queue=st.none() | st.sampled_from(QUEUES),
    )
    def update(self, pick: int, priority: int | None, delay: int | None, queue: str | None) -> None:
        chosen = self._any_job(pick).id
        changes = JobUpdate(priority, None if delay is None else self.now + delay, queue)
        updated = self.engines[0].queries.update(chosen, changes, now=self.now)
        assert updated == self.model.update(chosen, changes, self.now)

    @rule(queue=st.sampled_from(QUEUES), paused=st.booleans())
    def pause(self, queue: str, paused: bool) -> None:
        self.engines[0].queries.pause_queue(queue, paused)
        (self.model.paused.add if paused else self.model.paused.discard)(queue)

    @rule(by=st.sampled_from([1, 40, 200, 40_000]))
    def time_passes(self, by: int) -> None:
        self.now += by

    @rule()
    def everything_can_be_brought_to_an_end(self) -> None:
        """Nothing is lost: once time has passed and pauses are lifted, every open job can be claimed and settled."""
        for queue in QUEUES:
            self.pause(queue, False)
        self.time_passes(1_000_000)
        self.reap(0, 10_000)
        while self.claim_all():
            latest = [claimed for claimed in self.leases if (claimed.id, claimed.version) in self._live()]
            outcomes = [succeed(claimed, at=self.now) for claimed in latest]
            assert self.engines[0].exchange(outcomes, None, now=self.now).refused == []
            for outcome in outcomes:
                assert self.model.settle(outcome)
                self.settled.add((outcome.id, outcome.version))
        assert self.model.open() == []

    # -- what always holds

    @invariant()
    def the_store_is_what_the_model_says(self) -> None:
        found = rows(self.engines[1])
        assert found.keys() == self.model.jobs.keys()
        wrong = [(job, found[job.id]) for job in self.model.jobs.values() if not job.looks_like(found[job.id])]
        assert wrong == []
        self._compare_with_the_last_look(found)
        self.seen = found

    def _compare_with_the_last_look(self, found: dict[str, JobRow]) -> None:
        for job in found.values():
            assert (job.state is State.RUNNING) == (job.lease_until is not None)
            assert job.state is not State.RUNNING or job.attempt <= job.max_attempts
            assert job.attempt >= 0
            before = self.seen.get(job.id)
            if before is not None:
                same = (job.state, job.queue, job.priority, job.run_at, job.attempt) == (
                    before.state,
                    before.queue,
                    before.priority,
                    before.run_at,
                    before.attempt,
                )
                assert job.version > before.version or (same and job.version == before.version)

    # -- how

    def _any_job(self, pick: int) -> ModelJob:
        return list(self.model.jobs.values())[pick % len(self.model.jobs)]

    def _live(self) -> set[tuple[str, int]]:
        return {(job.id, job.version) for job in self.model.those(State.RUNNING)}

    def _take(self, claims: list[Claim], until: int) -> None:
        for claimed in claims:
            self.model.claim(claimed, until)
        self.leases += claims

    def _claim_any(self, worker: int, limit: int, outcomes: list[Outcome]) -> list[Outcome]:
        """Which queue goes first is not promised; that each goes in its own order is, and that nothing is left out."""
        orders = {queue: self.model.claimable(queue) for queue in QUEUES}
        answer = self.engines[worker].exchange(outcomes, want(limit, worker=f"w{worker}", lease=LEASE), now=self.now)
        taken = [claimed.id for claimed in answer.claims]
        assert len(taken) == min(limit, sum(map(len, orders.values())))
        for order in orders.values():
            of_this = [job_id for job_id in taken if job_id in order]
            assert of_this == order[: len(of_this)]
        self._take(answer.claims, self.now + LEASE)
        due = [job.run_at for job in self.model.those(State.SCHEDULED, State.RETRYING)]
        assert answer.next_at == min(due, default=None)
        return answer.refused

    def claim_all(self) -> bool:
        before = len(self.leases)
        self.model.pass_time(self.now)
        self._claim_any(0, 10_000, [])
        return len(self.leases) > before

    def _outcome(self, claimed: Claim, kind: str, delay: int) -> Outcome:
        if kind == "retry" and claimed.attempt >= claimed.max_attempts:
            kind = "fail"  # as whoever decides would
        made: dict[str, Any] = {
            "succeed": lambda: succeed(claimed, at=self.now),
            "retry": lambda: retry(claimed, self.now + delay, at=self.now),
            "snooze": lambda: snooze(claimed, self.now + delay, at=self.now),
            "release": lambda: release(claimed, at=self.now),
            "park": lambda: park(claimed, self.now + delay, at=self.now),
            "fail": lambda: fail(claimed, at=self.now),
            "give up": lambda: give_up(claimed, at=self.now),
        }
        return made[kind]()


@pytest.mark.slow_on("postgres")
@pytest.mark.parametrize("examples", [15, pytest.param(60, marks=pytest.mark.slow)])
def test_no_order_of_operations_leads_a_store_away_from_the_model(engine_name: str, examples: int) -> None:
    run_state_machine_as_test(
        lambda: StoreMachine(engine_name),  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )

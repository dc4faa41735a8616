"""The same operations on every engine, in any order: all answers and all rows have to be equal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from difflib import unified_diff
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from headrace.core.dead_letters.records import (
    RESOLUTIONS,
    DeadLetterFilter,
    NewDeadLetter,
    RequeueRequest,
    Status,
    entry_time,
    snapshot_of,
)
from headrace.core.jobs.dependencies import Dependency, FlowRow, Policy
from headrace.core.jobs.queue_rules import QueueRules, Rate, TaskRules
from headrace.core.jobs.records import Claim, DeadLetterRow, Filter, JobRow, JobUpdate, Lease, NewJob, Outcome
from headrace.core.jobs.states import FINAL, OPEN, State, Trigger
from headrace.core.jobs.steps import Step
from headrace.core.jobs.unique_rules import Act, UniqueCondition, UniqueRule
from headrace.core.retention.policy_fields import OnStale
from headrace.core.retention.staleness import StaleAction
from headrace.engines.protocol.engine import Engine
from headrace.errors import HeadraceError
from tests.support.builders import (
    NOW,
    fail,
    give_up,
    keyed,
    log,
    new_job,
    only,
    progress,
    release,
    retry,
    rows,
    snooze,
    succeed,
    worker_row,
)
from tests.support.engines import KINDS, new_store

Answer = TypeVar("Answer")

LEASE = 100
ALL = 100_000
QUEUES = st.sampled_from(["a", "b"])
WORKERS = st.sampled_from(["w0", "w1"])
PICKS = st.integers(0, 10_000)  # taken modulo what there is
SEVERAL = st.lists(PICKS, min_size=1, max_size=3, unique=True)
DELAYS = st.sampled_from([-50, 0, 0, 1, 40, 150])
POLICIES: st.SearchStrategy[Policy] = st.sampled_from(["cancel", "run", "only", "hold"])
ACTS: st.SearchStrategy[Act] = st.sampled_from(["keep", "refuse", "replace", "reschedule", "cancel"])
ENDS = st.sampled_from(["succeed", "succeed", "retry", "snooze", "release", "fail", "give up", "await"])
MOVES = st.sampled_from([Trigger.CANCEL, Trigger.REVIVE, Trigger.PROMOTE_NOW, Trigger.DELETE])
RULES = st.sampled_from(
    [
        QueueRules(),
        QueueRules(concurrency=2),
        QueueRules(key_concurrency=1),
        QueueRules(rate=Rate(20_000, 2)),
        QueueRules(max_length=6),
        TaskRules(concurrency=1),
        TaskRules(paused=True),
        TaskRules(),
    ]
)


class EnginesMachine(RuleBasedStateMachine):
    """Does the same to a store of each engine, and compares what they answer and what they hold."""

    def __init__(self) -> None:
        super().__init__()
        self.at_end = ExitStack()
        self.engines = {kind: new_store(kind, self.at_end).open() for kind in KINDS}
        self.now = NOW
        self.made = 0
        self.claims: list[Claim] = []  # every claim ever handed out, most of them outdated

    def teardown(self) -> None:
        self.at_end.close()

    # -- inserts

    @rule(
        count=st.integers(1, 3),
        queue=QUEUES,
        delay=DELAYS,
        priority=st.integers(-1, 1),
        lifo=st.booleans(),
        expires=st.sampled_from([None, None, 30, 300]),
        key=st.sampled_from([None, None, "k1", "k2"]),
    )
    def insert(
        self, count: int, queue: str, delay: int, priority: int, lifo: bool, expires: int | None, key: str | None
    ) -> None:
        more: dict[str, Any] = {
            "priority": priority,
            "lifo": lifo,
            "expires_at": None if expires is None else self.now + expires,
            "tags": ("red", "blue") if priority else (),
            "metadata": '{"n":1}' if lifo else None,
        }
        make = self._job if key is None else lambda queue, delay, **more: self._keyed(key, queue, delay, **more)
        jobs = [make(queue, delay, **more) for _ in range(count)]
        self.same(lambda engine: engine.insert(jobs, now=self.now))

    @rule(act=ACTS, key=st.sampled_from(["u1", "u2"]), queue=QUEUES, delay=DELAYS, also_finished=st.booleans())
    def insert_unique(self, act: Act, key: str, queue: str, delay: int, also_finished: bool) -> None:
        conditions = [UniqueCondition(tuple(sorted(OPEN)))]
        if also_finished:
            conditions.append(UniqueCondition(tuple(sorted(FINAL)), finished_since=self.now - 100))
        jobs = [self._job(queue, delay, unique_key=key, tags=(key,)), self._job(queue, 0)]
        unique = [UniqueRule(tuple(conditions), act), None]
        self.same(lambda engine: engine.insert(jobs, unique=unique, now=self.now))

    @rule(graph=st.lists(st.lists(st.tuples(PICKS, POLICIES), max_size=2), min_size=1, max_size=4), flow=st.booleans())
    def insert_graph(self, graph: list[list[tuple[int, Policy]]], flow: bool) -> None:
        known, jobs, edges = self._ids(), list[NewJob](), list[Dependency]()
        name = f"f{self.made}" if flow else None
        for picks in graph:
            parents = {known[pick % len(known)]: policy for pick, policy in picks if known}
            job = self._job("a", 0, state=State.WAITING if parents else None, flow=name)
            jobs.append(job)
            edges += [Dependency(parent, job.id, policy) for parent, policy in parents.items()]
            known.append(job.id)
        made = FlowRow(name, "flow", self.now) if name else None
        self.same(lambda engine: engine.insert(jobs, edges=edges, flow=made, now=self.now))

    # -- workers

    @rule(worker=WORKERS, queue=QUEUES, limit=st.integers(1, 4))
    def claim(self, worker: str, queue: str, limit: int) -> None:
        self._exchange([], worker, queue, limit)

    @rule(
        worker=WORKERS, ends=st.lists(st.tuples(PICKS, ENDS, DELAYS), min_size=1, max_size=3), then_claim=st.booleans()
    )
    @precondition(lambda self: self.claims)
    def settle(self, worker: str, ends: list[tuple[int, str, int]], then_claim: bool) -> None:
        """Of any worker: many of the leases are outdated, and some are settled twice."""
        outcomes = [self._outcome(self._lease(pick), end, delay) for pick, end, delay in ends]
        self._exchange(outcomes, worker, "a", 2 if then_claim else 0)

    @rule(pick=PICKS, policies=st.lists(POLICIES, min_size=1, max_size=2))
    @precondition(lambda self: self.claims)
    def succeed_and_spawn(self, pick: int, policies: list[Policy]) -> None:
        lease = self._lease(pick)
        children = [self._job("a", 0) for _ in policies]
        edges = [Dependency(child.id, lease.id, policy) for child, policy in zip(children, policies, strict=True)]
        done = msgspec.structs.replace(succeed(lease, at=self.now), spawned=tuple(children), edges=tuple(edges))
        self._exchange([done], "w0", "a", 0)

    @rule(pick=PICKS, name=st.sampled_from(["s", "t"]))
    @precondition(lambda self: self.claims)
    def save_step(self, pick: int, name: str) -> None:
        step = Step("step", name, 1, self.now, '"value"', 3)
        self.same(lambda engine: engine.save_step(self._lease(pick), step, now=self.now))

    @rule(pick=PICKS)
    @precondition(lambda self: self.claims)
    def take_notes(self, pick: int) -> None:
        lease = self._lease(pick)
        notes = [log(lease, "hello", at=self.now), progress(lease, "0.5", at=self.now)]
        self.same(lambda engine: engine.exchange([], None, notes, now=self.now).refused)

    @rule(worker=WORKERS, picks=SEVERAL, ttl=st.sampled_from([50, 500]))
    @precondition(lambda self: self.claims)
    def renew(self, worker: str, picks: list[int], ttl: int) -> None:
        leases = [self._lease(pick) for pick in picks]
        self.same(lambda engine: engine.renew(worker_row(worker), leases, ttl, now=self.now).lost)

    @rule(max_crashes=st.sampled_from([None, 1, 2]), alive=st.booleans())
    def reap(self, max_crashes: int | None, alive: bool) -> None:
        self.same(lambda engine: engine.reap(ALL, max_crashes, now=self.now, alive=alive), in_order=False)

    @rule(worker=WORKERS, picks=SEVERAL)
    @precondition(lambda self: self.claims)
    def release_unknown_claims(self, worker: str, picks: list[int]) -> None:
        held = [self._lease(pick) for pick in picks]
        self.same(lambda engine: engine.release_unknown_claims(worker, held, now=self.now), in_order=False)

    @rule(by=st.sampled_from([1, 40, 200, 40_000]))
    def time_passes(self, by: int) -> None:
        self.now += by

    # -- operators

    @precondition(lambda self: self.made)
    @rule(event=MOVES, picks=SEVERAL)
    def move(self, event: Trigger, picks: list[int]) -> None:
        which = Filter(ids=tuple(sorted({self._any_id(pick) for pick in picks})))
        self.same(lambda engine: engine.queries.move(which, event, ALL, "ann", now=self.now), in_order=False)

    @rule(event=MOVES, queue=QUEUES, state=st.sampled_from(sorted(State)))
    def move_many(self, event: Trigger, queue: str, state: State) -> None:
        which = Filter(queue=queue, states=(state,))
        self.same(lambda engine: engine.queries.move(which, event, ALL, now=self.now), in_order=False)

    @precondition(lambda self: self.made)
    @rule(pick=PICKS, priority=st.none() | st.integers(-1, 1), delay=st.none() | DELAYS, queue=st.none() | QUEUES)
    def update(self, pick: int, priority: int | None, delay: int | None, queue: str | None) -> None:
        changes = JobUpdate(priority, None if delay is None else self.now + delay, queue)
        self.same(lambda engine: engine.queries.update(self._any_id(pick), changes, "ann", now=self.now))

    @precondition(lambda self: self.made)
    @rule(pick=PICKS)
    def signal(self, pick: int) -> None:
        self.same(lambda engine: engine.queries.signal(self._any_id(pick), "go", '"on"', 5, now=self.now))

    @rule(queue=QUEUES, paused=st.booleans())
    def pause(self, queue: str, paused: bool) -> None:
        self.same(lambda engine: engine.queries.pause_queue(queue, paused))

    @rule(rules=RULES, queue=QUEUES)
    def set_rules(self, rules: QueueRules | TaskRules, queue: str) -> None:
        name = queue if isinstance(rules, QueueRules) else "work"
        self.same(lambda engine: engine.rule_store.set_rules(name, rules))

    @precondition(lambda self: self.made)
    @rule(pick=PICKS, action=st.sampled_from(["review", "fail", "dead"]), late=st.booleans())
    def mark_stale(self, pick: int, action: OnStale, late: bool) -> None:
        job_id = self._any_id(pick)
        version = self._rows().get(job_id)
        actions = [StaleAction(job_id, (version.version if version else 1) - late, action, "too old", "print")]
        self.same(lambda engine: engine.staleness_store.mark_stale(actions, now=self.now))

    # -- dead letters

    @precondition(lambda self: self.made)
    @rule(pick=PICKS)
    def add_dead_letter(self, pick: int) -> None:
        request = NewDeadLetter(self._any_id(pick), "by_hand")
        self.same(lambda engine: engine.dead_letters.add(request, "ann", "look", now=self.now))

    @precondition(lambda self: self._dead_letters())
    @rule(pick=PICKS, most=st.sampled_from([1, 3]), delay=st.sampled_from([None, 150]), other=st.booleans())
    def requeue(self, pick: int, most: int, delay: int | None, other: bool) -> None:
        payload = ("[1]", 8, '["green"]') if other else (None, None, None)
        run_at = None if delay is None else self.now + delay

        def requeue(engine: Engine) -> Any:
            request = RequeueRequest(self._dead_letter(engine, pick), 10, most, run_at, *payload)
            [done] = engine.dead_letters.requeue([request], "ann", "again", "by hand", now=self.now)
            return done.job_id, done.result, done.requeues

        self.same(requeue)

    @precondition(lambda self: self._dead_letters())
    @rule(pick=PICKS, status=st.sampled_from(RESOLUTIONS))
    def resolve(self, pick: int, status: Status) -> None:
        self.same(
            lambda engine: len(
                engine.dead_letters.update([self._dead_letter(engine, pick)], status, "ann", now=self.now)
            )
        )

    # -- what always holds

    @invariant()
    def every_store_holds_the_same(self) -> None:
        held = {kind: contents(engine) for kind, engine in self.engines.items()}
        first, *others = held
        for kind in others:
            differences = list(unified_diff(held[first], held[kind], first, kind, n=0, lineterm=""))
            assert not differences, "\n".join(differences)
        self.now += 1  # records of one moment have no order among them

    def same(self, act: Callable[[Engine], Answer], *, in_order: bool = True) -> Answer:
        """Do it on every engine; the answer, which is that of all."""
        answers = {kind: _answer(act, engine) for kind, engine in self.engines.items()}
        first = next(iter(answers.values()))
        for kind, answer in answers.items():
            arranged = (answer, first) if in_order else (sorted(map(repr, answer)), sorted(map(repr, first)))
            assert arranged[0] == arranged[1], f"{kind} differs from {next(iter(answers))}"
        return first

    # -- how

    def _job(self, queue: str, delay: int, **more: Any) -> NewJob:
        self.made += 1
        return new_job(f"j{self.made}", queue=queue, run_at=self.now + delay, created_at=self.now, **more)

    def _keyed(self, key: str, queue: str, delay: int, **more: Any) -> NewJob:
        self.made += 1
        return keyed(f"j{self.made}", key, queue=queue, run_at=self.now + delay, created_at=self.now, **more)

    def _exchange(self, outcomes: list[Outcome], worker: str, queue: str, limit: int) -> None:
        request = only(queue, limit, worker) if limit else None

        def exchange(engine: Engine) -> Any:
            done = engine.exchange(outcomes, request, now=self.now)
            claims = [msgspec.structs.replace(claim, ref=0) for claim in done.claims]  # an engine's own name
            return sorted(map(repr, done.refused)), claims, done.next_at

        answer = self.same(exchange)
        if answer[0] != "error":
            self.claims += answer[1]

    def _outcome(self, lease: Lease, end: str, delay: int) -> Outcome:
        made: dict[str, Callable[[], Outcome]] = {
            "succeed": lambda: succeed(lease, at=self.now),
            "retry": lambda: retry(lease, self.now + delay, at=self.now),
            "snooze": lambda: snooze(lease, self.now + delay, at=self.now),
            "release": lambda: release(lease, at=self.now),
            "fail": lambda: fail(lease, at=self.now),
            "give up": lambda: give_up(lease, at=self.now),
            "await": lambda: msgspec.structs.replace(
                snooze(lease, self.now + 400, at=self.now), reason="waits for event 'go'", awaits=(("go", 1),)
            ),
        }
        return made[end]()

    def _lease(self, pick: int) -> Lease:
        """Mostly one of the newest."""
        newest = self.claims[-4:] if pick % 4 else self.claims
        return newest[pick % len(newest)].lease

    def _any_id(self, pick: int) -> str:
        return f"j{pick % self.made + 1}"

    def _first(self) -> Engine:
        return next(iter(self.engines.values()))

    def _rows(self) -> dict[str, JobRow]:
        return rows(self._first())

    def _ids(self) -> list[str]:
        return sorted(self._rows())

    def _dead_letters(self) -> bool:
        return bool(self._first().dead_letters.find(DeadLetterFilter(), 1, oldest_first=True))

    def _dead_letter(self, engine: Engine, pick: int) -> str:
        """The id of a dead letter that is the same one on every engine; ids are random."""
        found = sorted(
            engine.dead_letters.find(DeadLetterFilter(), ALL, oldest_first=True),
            key=lambda row: (row.entered_at, row.job_id, row.status),
        )
        return found[pick % len(found)].id


def contents(engine: Engine) -> list[str]:
    """Everything a store holds, a line for each record, without the names that each engine makes itself."""
    jobs = engine.transfer.export_jobs(0, ALL)
    dead_letters = [_plain(row) for row in engine.dead_letters.find(DeadLetterFilter(), ALL, oldest_first=True)]
    records: list[Any] = [
        *(msgspec.structs.replace(job, job=msgspec.structs.replace(job.job, seq=0)) for job in jobs),
        *engine.flow_store.edges([job.job.id for job in jobs]),
        *((row.flow, sorted(row.jobs.items())) for row in engine.flow_store.flows(ALL)),
        *sorted(dead_letters, key=lambda row: (row.entered_at, row.job_id, row.status, repr(row))),
        *sorted(engine.queries.queue_counts(), key=repr),
        *((queue.name, queue.paused, queue.rules) for queue in engine.queries.rules().queues),
        *engine.queries.rules().tasks,
        *sorted(engine.dead_letters.stats(), key=repr),
        *((queue, job.id) for queue in ("a", "b") for job in engine.queries.peek(queue, ALL)),
    ]
    return list(map(repr, records))


def _plain(row: DeadLetterRow) -> DeadLetterRow:
    snapshot = snapshot_of(row)
    snapshot = msgspec.structs.replace(snapshot, parents=sorted(snapshot.parents))  # they have no order
    return msgspec.structs.replace(row, id=str(entry_time(row.id)), snapshot=repr(snapshot))


def _answer(act: Callable[[Engine], Any], engine: Engine) -> Any:
    try:
        return act(engine)
    except HeadraceError as error:
        return ["error", type(error).__name__, str(error)]


@pytest.mark.parametrize("examples", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_all_engines_answer_and_hold_the_same(examples: int) -> None:
    if len(KINDS) < 2:
        pytest.skip("two engines are needed to compare them")
    run_state_machine_as_test(
        EnginesMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )

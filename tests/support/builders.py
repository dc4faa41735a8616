"""Small builders: jobs, wants and outcomes with everything a test does not care about filled in.

Time is always NOW plus something the test says. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

import msgspec

from headrace.core.jobs.queue_rules import Rate, Strategy
from headrace.core.jobs.records import (
    Claim,
    ClaimRequest,
    ExchangeResult,
    Filter,
    JobNote,
    JobRow,
    Lease,
    NewJob,
    Outcome,
    QueueShare,
    WorkerRow,
)
from headrace.core.jobs.states import OPEN, State, Trigger
from headrace.core.jobs.unique_rules import Act, InsertResult, UniqueCondition, UniqueInsert, UniqueRule
from headrace.core.queues.limits import Limit, lane_of
from headrace.core.schedules.records import Occurrence, ScheduleFire, ScheduleRow
from headrace.engines.protocol.engine import Engine

NOW = 1_700_000_000_000
LEASE = 30_000
SECOND = 1_000
HOUR = 3_600_000
EVERYTHING = Filter()


def new_job(
    job_id: str = "job",
    *,
    queue: str = "default",
    task: str = "work",
    run_at: int = NOW,
    created_at: int = NOW,
    state: State | None = None,
    lifo: bool = False,
    max_attempts: int = 3,
    tags: tuple[str, ...] = (),
    **more: Any,
) -> NewJob:
    """A job as a client would submit it at `created_at`: pending if it is due, scheduled if not."""
    return NewJob(
        id=job_id,
        task=task,
        queue=queue,
        state=state or (State.SCHEDULED if run_at > created_at else State.PENDING),
        priority=more.pop("priority", 0),
        rank=-run_at if lifo else run_at,
        payload=more.pop("payload", "[]"),
        checksum=more.pop("checksum", 7),
        created_at=created_at,
        run_at=run_at,
        max_attempts=max_attempts,
        tags=msgspec.json.encode(tags).decode() if tags else None,
        **more,
    )


def want(
    limit: int = 100,
    *,
    worker: str = "w1",
    lease: int = LEASE,
    shares: tuple[tuple[str, int], ...] = (),
    others: bool = True,
) -> ClaimRequest:
    return ClaimRequest(worker, limit, lease, tuple(QueueShare(queue, quota) for queue, quota in shares), others)


def only(queue: str, limit: int = 100, worker: str = "w1") -> ClaimRequest:
    """A want for one queue and no other."""
    return want(limit, worker=worker, shares=((queue, limit),), others=False)


NOTHING = only("no such queue")  # a claim that lets time do its work and takes no job


def claim(engine: Engine, limit: int = 100, *, now: int = NOW, worker: str = "w1", lease: int = LEASE) -> list[Claim]:
    return engine.exchange([], want(limit, worker=worker, lease=lease), now=now).claims


def claim_one(engine: Engine, *, now: int = NOW, worker: str = "w1", lease: int = LEASE) -> Claim:
    """The next job; fails if there is none."""
    (claimed,) = claim(engine, 1, now=now, worker=worker, lease=lease)
    return claimed


def submit_and_claim(engine: Engine, job_id: str = "job", *, worker: str = "w1", now: int = NOW, **more: Any) -> Claim:
    engine.insert([new_job(job_id, **more)], now=now)
    return claim_one(engine, worker=worker, now=now)


def settle(engine: Engine, *outcomes: Outcome, now: int = NOW) -> list[Outcome]:
    """Settle and claim nothing; what was refused."""
    return engine.exchange(outcomes, None, now=now).refused


def insert_unique(target: Engine, candidates: Sequence[UniqueInsert], **how: Any) -> list[InsertResult]:
    """Insert jobs under their unique rules."""
    rules = [candidate.rule for candidate in candidates]
    return target.insert([candidate.job for candidate in candidates], unique=rules, **how)


def kinds(results: Sequence[InsertResult]) -> list[str]:
    """What became of inserted jobs, in their order."""
    return [result.kind for result in results]


# -- outcomes, one for each way an attempt can end


def succeed(claimed: Claim | Lease, *, at: int = NOW, result: str | None = '"done"') -> Outcome:
    return Outcome(
        claimed.id,
        claimed.version,
        Trigger.SUCCEED,
        State.COMPLETED,
        at,
        result=result,
        result_checksum=9 if result else None,
        finished_at=at,
    )


def retry(claimed: Claim | Lease, run_at: int, *, at: int = NOW, message: str = "try again") -> Outcome:
    return Outcome(
        claimed.id,
        claimed.version,
        Trigger.RETRY,
        State.RETRYING,
        at,
        run_at=run_at,
        reason="error",
        error_type="ValueError",
        error_message=message,
        error_traceback=f"Traceback: {message}",
    )


def snooze(claimed: Claim | Lease, run_at: int, *, at: int = NOW) -> Outcome:
    return Outcome(
        claimed.id,
        claimed.version,
        Trigger.SNOOZE,
        State.SCHEDULED,
        at,
        run_at=run_at,
        attempt_refund=1,
        reason="snoozed",
    )


def release(claimed: Claim | Lease, *, at: int = NOW) -> Outcome:
    return Outcome(claimed.id, claimed.version, Trigger.RELEASE, State.PENDING, at, attempt_refund=1, reason="shutdown")


def park(claimed: Claim | Lease, run_at: int, *, at: int = NOW) -> Outcome:
    """Release with a delay, as for a task this worker does not know."""
    return Outcome(
        claimed.id,
        claimed.version,
        Trigger.RELEASE,
        State.SCHEDULED,
        at,
        run_at=run_at,
        attempt_refund=1,
        reason="unknown task",
    )


def fail(claimed: Claim | Lease, *, at: int = NOW, reason: str = "permanent") -> Outcome:
    return Outcome(
        claimed.id,
        claimed.version,
        Trigger.FAIL,
        State.FAILED,
        at,
        reason=reason,
        finished_at=at,
        error_type="KeyError",
        error_message="no such thing",
        error_traceback="Traceback: no such thing",
    )


def give_up(claimed: Claim | Lease, *, at: int = NOW) -> Outcome:
    """The task cancelled its own job."""
    return Outcome(
        claimed.id, claimed.version, Trigger.CANCEL, State.CANCELLED, at, reason="cancelled by its task", finished_at=at
    )


def lease_of(claimed: Claim) -> Lease:
    return Lease(claimed.id, claimed.version)


def log(claimed: Claim | Lease, message: str, *, at: int = NOW, level: str = "info") -> JobNote:
    return JobNote(claimed.id, claimed.version, at, level=level, message=message)


def progress(claimed: Claim | Lease, value: str, *, at: int = NOW) -> JobNote:
    return JobNote(claimed.id, claimed.version, at, progress=value)


def worker_row(worker_id: str = "w1", **more: Any) -> WorkerRow:
    fields: dict[str, Any] = {
        "host": "here",
        "pid": 1,
        "started_at": NOW,
        "seen_at": NOW,
        "state": "running",
        "command": "run",
        "queues": '["default"]',
        "concurrency": 4,
        "running": 0,
        "completed": 0,
        "failed": 0,
        "tasks": '["work"]',
        "heartbeat": 10_000,
    }
    return WorkerRow(id=worker_id, **{**fields, **more})


# -- looking


def row(engine: Engine, job_id: str = "job") -> JobRow:
    (found,) = engine.queries.get([job_id])
    return found


def rows(engine: Engine) -> dict[str, JobRow]:
    """Every job of the store by its id."""
    return {job.id: job for job in engine.queries.find(EVERYTHING, 100_000).jobs}


def states(engine: Engine) -> dict[str, State]:
    return {job_id: job.state for job_id, job in rows(engine).items()}


def ids(jobs: list[Claim]) -> list[str]:
    return [job.id for job in jobs]


# -- getting a job into a state by public operations

LATER = NOW + HOUR  # when a job brought to scheduled or retrying is due


def bring(engine: Engine, state: State, job_id: str = "job", **more: Any) -> Lease:
    """Submit a job and lead it to the state.

    The answer is the lease that its last worker holds, or held: of a job that was never claimed, one of a version
    that no claim ever hands out.
    """
    match state:
        case State.PENDING:
            engine.insert([new_job(job_id, **more)], now=NOW)
        case State.SCHEDULED:
            engine.insert([new_job(job_id, **{**more, "run_at": LATER})], now=NOW)
        case State.WAITING:
            engine.insert([new_job(job_id, **{**more, "state": State.WAITING})], now=NOW)
        case _:
            return _bring_by_a_claim(engine, state, job_id, more)
    return Lease(job_id, 0)


def _bring_by_a_claim(engine: Engine, state: State, job_id: str, more: dict[str, Any]) -> Lease:
    engine.insert([new_job(job_id, **more)], now=NOW)
    (claimed,) = engine.exchange([], only(more.get("queue", "default"), 1), now=NOW).claims
    assert claimed.id == job_id, "another job was in front"
    outcome = {
        State.RETRYING: retry(claimed, LATER),
        State.COMPLETED: succeed(claimed),
        State.FAILED: fail(claimed),
        State.CANCELLED: give_up(claimed),
    }
    if state is not State.RUNNING:
        settle(engine, outcome[state])
    return lease_of(claimed)


# -- uniqueness

_STILL_OPEN = (UniqueCondition(tuple(sorted(OPEN))),)


def candidate(
    job_id: str,
    act: Act = "keep",
    *,
    key: str | None = "key",
    where: tuple[UniqueCondition, ...] = _STILL_OPEN,
    **more: Any,
) -> UniqueInsert:
    """A job that is to be the only open one with its key, unless the test says otherwise."""
    return UniqueInsert(new_job(job_id, unique_key=key, **more), UniqueRule(where, act))


# -- schedules


def schedule(schedule_id: str = "tick", *, due_at: int | None = NOW, version: int = 1, **more: Any) -> ScheduleRow:
    """A schedule that is due at `due_at`, as if declared an hour before NOW."""
    fields: dict[str, Any] = {
        "task": "work",
        "queue": "default",
        "paused": due_at is None,
        "occurrence": due_at,
        "fired": 0,
        "last_fired": None,
        "last_job": None,
        "created_at": NOW - HOUR,
        "updated_at": NOW - HOUR,
        "origin": "code",
        "timing": '{"every":1000}',
        "call": msgspec.json.encode(new_job("made of this")).decode(),
    }
    return ScheduleRow(id=schedule_id, version=version, due_at=due_at, **{**fields, **more})


def firing(row: ScheduleRow, *jobs: NewJob, due_at: int | None = LATER) -> ScheduleFire:
    """What a scheduler hands in for one time of the schedule: each job with its occurrence, and the next time."""
    at = row.occurrence or NOW
    fired = msgspec.structs.replace(
        row,
        occurrence=due_at,
        due_at=due_at,
        fired=row.fired + 1,
        last_fired=at,
        last_job=jobs[-1].id if jobs else row.last_job,
        updated_at=NOW,
    )
    return ScheduleFire(fired, jobs, tuple(Occurrence(row.id, at, NOW, "enqueued", job.id) for job in jobs))


def one_version_on(row: ScheduleRow) -> ScheduleRow:
    """The row as a store has it that took it in place of an older one."""
    return msgspec.structs.replace(row, version=row.version + 1)


# -- at the same moment

Answer = TypeVar("Answer")


def together(threads: int, act: Callable[[int], Answer]) -> list[Answer]:
    """What each of so many threads answers that act from one start signal, told its number; raises what they raise."""
    start = Barrier(threads)

    def begin(number: int) -> Answer:
        start.wait()
        return act(number)

    with ThreadPoolExecutor(threads) as worker_state:
        return list(worker_state.map(begin, range(threads)))


# -- limits and lanes


def per_second(starts: int, burst: int = 1) -> Rate:
    """A rate; `starts` should divide a million, so that the moments a test computes are exact."""
    return Rate(1_000_000 // starts, burst)


def numbered(count: int, prefix: str = "j", **more: Any) -> list[NewJob]:
    """Jobs whose ids sort in the order of their submission."""
    return [new_job(f"{prefix}{number:04}", **more) for number in range(count)]


def gated(job_id: str, *lane_limits: Limit, **more: Any) -> NewJob:
    """A job that may start when all of its gates are open."""
    return new_job(job_id, lane=lane_of(lane_limits), **more)


def keyed(job_id: str, key: str, **more: Any) -> NewJob:
    """A job of which only so many with the same key may run at once."""
    return gated(job_id, Limit("key", key), **more)


def tenant(job_id: str, key: str, **more: Any) -> NewJob:
    """A job of which only so many with the same key may start in a time."""
    return gated(job_id, Limit("rate", key), **more)


def needing(job_id: str, *capabilities: str, **more: Any) -> NewJob:
    return gated(job_id, *(Limit("needs", name) for name in capabilities), **more)


def look(
    engine: Engine,
    limit: int = 100,
    *,
    now: int = NOW,
    worker: str = "w1",
    lease: int = LEASE,
    has: tuple[str, ...] = (),
    strategy: Strategy | None = None,
    done: list[Outcome] | None = None,
) -> ExchangeResult:
    """One turn of a worker that has these capabilities and prefers this order."""
    wanted = msgspec.structs.replace(want(limit, worker=worker, lease=lease), capabilities=has, strategy=strategy)
    return engine.exchange(done or [], wanted, now=now)


def started(engine: Engine, limit: int = 100, **more: Any) -> list[str]:
    """The ids of what one turn starts."""
    return ids(look(engine, limit, **more).claims)


def one_by_one(engine: Engine, turns: int, **more: Any) -> list[str]:
    """The ids of what a worker with a single slot starts in so many turns; each is done before the next one."""
    order: list[str] = []
    done: list[Outcome] = []
    for _ in range(turns):
        claims = look(engine, 1, done=done, **more).claims
        order += ids(claims)
        done = [succeed(claimed) for claimed in claims]
    if done:
        settle(engine, *done)
    return order


def running_jobs(engine: Engine, now: int = NOW) -> int:
    """How many jobs hold a live lease, as the desk tells it."""
    return sum(jobs for *_, jobs in engine.rule_store.limit_state(now=now).running)

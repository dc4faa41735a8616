"""A toy engine: jobs in the dictionaries of this process. It shows what the core of an engine is, and passes its tests.

One lock makes each operation atomic. All rules come from `headrace.core`. What is written here, any engine has to do:
keep rows, put pending jobs in order, compare versions, record the history, ring bells. It has no parts.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from headrace.core.clock import Clock, SystemClock
from headrace.core.events.log import EventGroup
from headrace.core.health.findings import MigrationResult
from headrace.core.jobs.count import JobCount
from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.details import JobDetails, StreamRange, log_and_stream
from headrace.core.jobs.fingerprint import CRASH_LOOP, WORKER_LOST
from headrace.core.jobs.light_rows import LEFT_OUT, LONG, LONGEST
from headrace.core.jobs.queue_rules import QueueRow, StoreRules
from headrace.core.jobs.records import (
    Claim,
    ClaimRequest,
    ExchangeResult,
    Filter,
    HistoryRow,
    JobNote,
    JobRow,
    JobRowPage,
    JobUpdate,
    Lease,
    LogLine,
    NewJob,
    Outcome,
    QueueCount,
    ReapedJob,
    RenewResult,
    WorkerRow,
)
from headrace.core.jobs.states import FINAL, NOT_STARTED, OPEN, TRANSITIONS, State, Trigger, is_legal, sources
from headrace.core.jobs.steps import Step, is_woken_by
from headrace.core.jobs.unique_rules import InsertResult, UniqueRule, results_of
from headrace.engines.shared.decisions import actor_suffix, movable_states, position, state_after
from headrace.errors import DuplicateJob, UnsupportedByEngine

_NO_TIME = {"started_at": None, "finished_at": None, "worker": None, "lease_until": None}
_UNTOUCHED = {**_NO_TIME, "attempt": 0, "crashes": 0, "result": None, "result_checksum": None, "progress": None}
_OLDEST = {State.PENDING: "rank", State.SCHEDULED: "run_at", State.RETRYING: "run_at", State.RUNNING: "started_at"}


class MemoryBell:
    """Wakes one listener of this process."""

    def __init__(self, store: MemoryStore, topic: str) -> None:
        self._store, self.topic, self._rung = store, topic, threading.Event()

    def wait(self, timeout: float | None) -> bool:
        rung = self._rung.wait(timeout)
        self._rung.clear()
        return rung

    def ring(self) -> None:
        self._rung.set()

    def close(self) -> None:
        self._store.bells.discard(self)


class NoLiveness:
    """No worker of this process can die alone."""

    def begin(self, ref: int) -> int | None:
        return None

    def ended(self, slot: int, ref: int) -> None: ...

    def settled(self, slot: int) -> None: ...

    def sees_dead(self) -> bool:
        return False

    def close(self) -> None: ...


class MemoryStore:
    """The contents of one store, for any number of engines. Whoever holds `lock` may read and write them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.jobs: dict[str, JobRow] = {}
        self.history: dict[str, list[HistoryRow]] = {}
        self.logs: dict[str, list[LogLine]] = {}
        self.steps: dict[str, list[Step]] = {}
        self.queues: dict[str, QueueRow] = {}
        self.workers: dict[str, WorkerRow] = {}
        self.bells: set[MemoryBell] = set()
        self.last_seq = 0

    def ring(self, *topics: str) -> None:
        for bell in list(self.bells):
            if bell.topic in topics:
                bell.ring()

    def add_queue(self, name: str, now: int) -> None:
        self.queues.setdefault(name, QueueRow(name, False, now))

    def in_states(self, *states: State) -> list[JobRow]:
        return [job for job in self.jobs.values() if job.state in states]

    def held(self, lease: Lease | Outcome | JobNote) -> JobRow | None:
        """The job, if it is at exactly this version."""
        job = self.jobs.get(lease.id)
        return job if job is not None and job.version == lease.version else None

    def record(self, job: JobRow, at: int, event: str, detail: str | None = None, **other: Any) -> None:
        """Record what the row is about to lose."""
        fields: dict[str, Any] = {
            "target": job.state,
            "version": job.version + 1,
            "worker": job.worker,
            "finished_at": job.finished_at,
            "error_type": None,
            "error_message": None,
            "error_traceback": None,
            **other,
        }
        entry = HistoryRow(
            at=at,
            event=event,
            source=job.state,
            attempt=job.attempt,
            started_at=job.started_at,
            detail=detail,
            **fields,
        )
        self.history.setdefault(job.id, []).append(entry)

    def go(self, job: JobRow, event: Trigger, target: State, **changes: Any) -> JobRow:
        """Execute one row of the table: the version increases by one, and the lease ends."""
        assert is_legal(event, job.state, target), (event, job.state, target)
        self.jobs[job.id] = replace(job, **{"lease_until": None, **changes}, state=target, version=job.version + 1)
        return self.jobs[job.id]

    def delete(self, job: JobRow) -> None:
        for kept in (self.jobs, self.history, self.logs, self.steps):
            kept.pop(job.id, None)


class MemoryEngine:
    """The operations on the path of every job, and on workers."""

    def __init__(self, store: MemoryStore, clock: Clock | None = None) -> None:
        self.url = "toy://"
        self.clock: Clock = clock or SystemClock()
        self.queries = MemoryQueries(store, self.clock)
        self._store = store

    def insert(
        self,
        jobs: Sequence[NewJob],
        *,
        unique: Sequence[UniqueRule | None] = (),
        edges: Sequence[Dependency] = (),
        flow: FlowRow | None = None,
        all_or_nothing: bool = False,
        now: int | None = None,
    ) -> list[InsertResult]:
        if unique or edges or flow is not None:
            raise UnsupportedByEngine("the toy engine has neither unique jobs nor dependencies")
        with self._store.lock:
            seen = set(self._store.jobs)
            fresh = [job.id not in seen and not seen.add(job.id) for job in jobs]  # type: ignore[func-returns-value]
            if all_or_nothing and not all(fresh):
                raise DuplicateJob(jobs[fresh.index(False)].id)
            for job in (job for job, is_new in zip(jobs, fresh, strict=True) if is_new):
                self._store.add_queue(job.queue, self._at(now))
                self._store.last_seq += 1
                empty: dict[str, Any] = {"releases": 0, "reason": None, **_UNTOUCHED}
                self._store.jobs[job.id] = JobRow(seq=self._store.last_seq, **asdict(job), **empty)
            for job in jobs:
                self._store.add_queue(job.queue, self._at(now))
        self.ring("work")
        return results_of(jobs, fresh)

    def exchange(
        self,
        outcomes: Sequence[Outcome],
        want: ClaimRequest | None,
        notes: Sequence[JobNote] = (),
        now: int | None = None,
        groups: Sequence[EventGroup] = (),
    ) -> ExchangeResult:
        at = self._at(now)
        with self._store.lock:
            for note in notes:
                self._note(note)
            msgspec.json.encode((outcomes, notes))  # what no store can hold is refused before anything is written
            refused = [outcome for outcome in outcomes if not self._settle(outcome, want, at)]
            answer = self._claim(want, at) if want and want.limit > 0 else ExchangeResult([], [])
        if outcomes:
            self._store.ring("work", "done")
        return replace(answer, refused=refused)

    def _note(self, note: JobNote) -> None:
        if (job := self._store.held(note)) is None:
            return
        if note.progress is not None:
            self._store.jobs[job.id] = job = replace(job, progress=note.progress)
        if note.message is not None:
            line = LogLine(note.at, job.attempt, note.level or "", note.message, note.fields)
            self._store.logs.setdefault(job.id, []).append(line)

    def _settle(self, outcome: Outcome, want: ClaimRequest | None, now: int) -> bool:
        errors = {name: getattr(outcome, name) for name in ("error_type", "error_message", "error_traceback")}
        if (job := self._store.held(outcome)) is None:
            if (current := self._store.jobs.get(outcome.id)) is not None:
                why = f"it held version {outcome.version}, the job is at {current.version}"
                late = {"worker": want.worker if want else None, "version": outcome.version, "finished_at": None}
                self._store.record(current, now, "lease_lost", f"late {outcome.event} refused: {why}", **late, **errors)
                self._store.history[current.id][-1] = replace(self._store.history[current.id][-1], started_at=None)
            return False
        kept = {"result": outcome.result, "result_checksum": outcome.result_checksum}
        if outcome.event is Trigger.SUCCEED:
            self._store.go(job, outcome.event, outcome.state, **kept, finished_at=outcome.finished_at, reason=None)
            return True
        if not outcome.quiet:
            self._store.record(job, outcome.at, outcome.event, outcome.reason, target=outcome.state, **errors)
        job = self._store.go(
            job,
            outcome.event,
            outcome.state,
            **kept,
            attempt=job.attempt - outcome.attempt_refund,
            releases=job.releases + outcome.attempt_refund,
            crashes=0 if outcome.event in (Trigger.RETRY, Trigger.SNOOZE) else job.crashes,
            max_attempts=outcome.max_attempts or job.max_attempts,
            reason=outcome.reason,
            finished_at=outcome.finished_at,
            worker=None if outcome.finished_at is None else job.worker,
            **({} if outcome.run_at is None else _times(job, outcome.run_at)),
        )
        came = [(step.name, step.number) for step in self._store.steps.get(job.id, ()) if step.kind == "event"]
        if any(event in came for event in outcome.awaits or ()):
            self._store.jobs[job.id] = replace(job, state=State.PENDING, reason=None, **_times(job, outcome.at))
        return True

    def _claim(self, want: ClaimRequest, now: int) -> ExchangeResult:
        for job in self._store.in_states(*NOT_STARTED):
            if job.expires_at is not None and job.expires_at <= now:
                self._store.record(job, now, Trigger.EXPIRE, "expired before it started", target=State.CANCELLED)
                self._store.go(job, Trigger.EXPIRE, State.CANCELLED, finished_at=now, reason="expired")
                self._store.ring("done")
        for job in self._store.in_states(*sources(Trigger.PROMOTE)):
            if job.run_at <= now:
                self._store.go(job, Trigger.PROMOTE, State.PENDING)
        queues = [row.name for row in self._store.queues.values() if not row.paused]
        shares = [(share.queue, share.quota) for share in want.shares if share.queue in queues]
        rest = [queue for queue, _ in shares] + (queues if want.others else [])
        claims: list[Claim] = []
        for queue, quota in (*shares, *((queue, want.limit) for queue in rest)):
            claims += self._take(queue, min(quota, want.limit - len(claims)), want, now)
        due = min((job.run_at for job in self._store.in_states(*sources(Trigger.PROMOTE))), default=None)
        undecided = want.known is not None and bool(want.known.undecided)
        return ExchangeResult([], claims, now if undecided else due, tuple(queues))

    def _take(self, queue: str, limit: int, want: ClaimRequest, now: int) -> list[Claim]:
        taken: list[Claim] = []
        for job in self.queries.in_order(queue):
            if len(taken) == limit:
                break
            if want.known is not None and job.task not in want.known:
                if want.known.undecided:
                    break
                continue
            started = {"worker": want.worker, "started_at": now, "lease_until": now + want.lease, "progress": None}
            job = self._store.go(job, Trigger.CLAIM, State.RUNNING, attempt=job.attempt + 1, **started)
            fields = {name: getattr(job, name) for name in Claim.__struct_fields__ if name != "ref"}
            taken.append(Claim(ref=job.seq, **fields))
        return taken

    def save_step(self, lease: Lease, step: Step, now: int | None = None) -> bool:
        with self._store.lock:
            job = self._store.held(lease)
            if job is None or job.state is not State.RUNNING:
                return False
            _save(self._store, job, step, self._at(now))
            return True

    def renew(self, worker: WorkerRow, leases: Sequence[Lease], ttl: int, now: int | None = None) -> RenewResult:
        at, lost = self._at(now), set[Lease]()
        with self._store.lock:
            before = self._store.workers.get(worker.id)
            if before is not None and not worker.heartbeat:
                worker = replace(before, seen_at=worker.seen_at, state=worker.state, running=worker.running)
            elif before is not None:
                worker = replace(worker, command=before.command, started_at=before.started_at)
            self._store.workers[worker.id] = worker
            for lease in leases:
                job = self._store.held(lease)
                if job is None or (job.lease_until or 0) <= at:
                    lost.add(lease)
                else:
                    self._store.jobs[job.id] = replace(job, lease_until=at + ttl)
            ends = [job.lease_until for job in self._store.in_states(State.RUNNING) if job.lease_until is not None]
        return RenewResult(frozenset(lost), worker.command, min(ends, default=None))

    def reap(
        self,
        limit: int,
        max_crashes: int | None = None,
        now: int | None = None,
        *,
        alive: bool = False,
        dead_letters: bool | Collection[str] = True,
    ) -> list[ReapedJob]:
        at, reaped = self._at(now), list[ReapedJob]()
        with self._store.lock:
            for job in self._store.in_states(State.RUNNING)[:]:
                if len(reaped) < limit and (alive or (job.lease_until or 0) <= at):
                    reaped.append(self._reap(job, max_crashes, at))
        if reaped:
            self._store.ring("work", "done")
        return reaped

    def _reap(self, job: JobRow, max_crashes: int | None, now: int) -> ReapedJob:
        target, detail, reason = State.PENDING, "recovered", None
        if max_crashes is not None and job.crashes + 1 >= max_crashes:
            target, detail, reason = State.FAILED, "its workers die again and again", CRASH_LOOP
        elif job.attempt >= job.max_attempts:
            target, detail, reason = State.FAILED, "attempts used up", WORKER_LOST
        message = f"worker {job.worker} died or let its lease run out"
        lost = {"error_type": "WorkerLost", "error_message": message, "error_traceback": ""}
        self._store.record(job, now, Trigger.LEASE_EXPIRED, detail, target=target, **lost)
        ended = {} if target is State.FAILED else {"worker": None}
        finished_at = now if target is State.FAILED else None
        changes = {"crashes": job.crashes + 1, "reason": reason, "finished_at": finished_at, **ended}
        self._store.go(job, Trigger.LEASE_EXPIRED, target, **changes)
        return ReapedJob(job.id, job.queue, target, job.worker)

    def release_unknown_claims(self, worker: str, held: Sequence[Lease], now: int | None = None) -> list[str]:
        released: list[str] = []
        with self._store.lock:
            for job in self._store.in_states(State.RUNNING):
                if job.worker == worker and Lease(job.id, job.version) not in set(held):
                    why = "its claim never reached the worker"
                    self._store.record(job, self._at(now), Trigger.RELEASE, why, target=State.PENDING)
                    back = {**_NO_TIME, "attempt": job.attempt - 1, "releases": job.releases + 1}
                    self._store.go(job, Trigger.RELEASE, State.PENDING, **back)
                    released.append(job.id)
        if released:
            self._store.ring("work")
        return released

    def register_worker(self, worker: WorkerRow) -> NoLiveness:
        self.renew(worker, (), 0)
        return NoLiveness()

    def unregister_worker(self, worker_id: str) -> None:
        with self._store.lock:
            self._store.workers.pop(worker_id, None)

    def listen(self, topic: str, queues: Collection[str] = ()) -> MemoryBell:
        bell = MemoryBell(self._store, topic)
        self._store.bells.add(bell)
        return bell

    def ring(self, topic: str) -> None:
        self._store.ring(topic)

    def migrate(self, *, dry_run: bool = False) -> MigrationResult:
        return MigrationResult(1, 1, [])

    def close(self) -> None: ...

    def _at(self, now: int | None) -> int:
        return self.clock.now() if now is None else now


class MemoryQueries:
    """Queries and commands of operators."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def move(
        self, which: Filter, event: Trigger, limit: int, by: str | None = None, now: int | None = None
    ) -> list[str]:
        at, moved = self._clock.now() if now is None else now, list[str]()
        states = movable_states(which, sources(event))
        with self._store.lock:
            for job in list(self._matching(replace(which, states=states)) if states else ())[: max(limit, 0)]:
                moved.append(job.id)
                self._move(job, event, by, at)
        if moved:
            self._store.ring("work", "done", "commands")
        return moved

    def _move(self, job: JobRow, event: Trigger, by: str | None, now: int) -> None:
        if event is Trigger.DELETE:
            self._store.delete(job)
            return
        [target] = TRANSITIONS[event].targets if event is not Trigger.REVIVE else [State.PENDING]
        self._store.record(job, now, event, f"by {by}" if by else None, target=target)
        if event is Trigger.CANCEL:
            self._store.go(job, event, target, finished_at=now, reason=f"cancelled{actor_suffix(by)}")
        elif event is Trigger.PROMOTE_NOW:
            self._store.go(job, event, target, **_times(job, now))
        else:
            if job.state is State.COMPLETED:
                self._store.steps.pop(job.id, None)
            self._store.go(job, event, target, **_UNTOUCHED, **_times(job, now), reason=None, expires_at=None)

    def update(self, job_id: str, changes: JobUpdate, by: str | None = None, now: int | None = None) -> bool:
        at = self._clock.now() if now is None else now
        with self._store.lock:
            job = self._store.jobs.get(job_id)
            if job is None or job.state not in sources(Trigger.UPDATE):
                return False
            target = state_after(job.state, changes.run_at, at)
            self._store.record(job, at, Trigger.UPDATE, changes.format_changes() + actor_suffix(by), target=target)
            times = {} if changes.run_at is None else _times(job, changes.run_at)
            queue = changes.queue if changes.queue is not None else job.queue
            priority = changes.priority if changes.priority is not None else job.priority
            self._store.go(job, Trigger.UPDATE, target, queue=queue, priority=priority, **times)
            self._store.add_queue(queue, at)
        self._store.ring("work")
        return True

    def get(self, ids: Sequence[str], *, light: bool = False) -> list[JobRow]:
        with self._store.lock:
            found = [self._store.jobs[job_id] for job_id in dict.fromkeys(ids) if job_id in self._store.jobs]
        return [_lightened(job) for job in found] if light else found

    def finished(self, ids: Collection[str]) -> set[str]:
        with self._store.lock:
            return {name for name in ids if name not in self._store.jobs or self._store.jobs[name].state in FINAL}

    def find(
        self, which: Filter, limit: int, cursor: str | None = None, reach: int | None = None, *, light: bool = False
    ) -> JobRowPage:
        before = position(cursor)
        with self._store.lock:
            found = [job for job in self._matching(which) if before is None or job.seq < before][::-1]
        page = [_lightened(job) for job in found[:limit]] if light else found[:limit]
        return JobRowPage(page, str(page[-1].seq) if page and len(found) > limit else None)

    def peek(self, queue: str, limit: int, *, light: bool = False) -> list[JobRow]:
        with self._store.lock:
            found = self.in_order(queue)[: max(limit, 0)]
        return [_lightened(job) for job in found] if light else found

    def in_order(self, queue: str) -> list[JobRow]:
        pending = [job for job in self._store.in_states(State.PENDING) if job.queue == queue]
        return sorted(pending, key=lambda job: (-job.priority, job.rank, job.seq))

    def count(self, which: Filter, reach: int | None = None) -> JobCount:
        with self._store.lock:
            return JobCount(len(list(self._matching(which))), True)

    def queue_counts(self, *, open_only: bool = False) -> list[QueueCount]:
        with self._store.lock:
            jobs = self._store.in_states(*(OPEN if open_only else State))
        numbers = Counter((job.queue, job.state) for job in jobs)
        return [QueueCount(queue, state, n, _oldest(jobs, queue, state)) for (queue, state), n in numbers.items()]

    def details(
        self,
        job_id: str,
        *,
        history: bool = True,
        logs: int = 1000,
        steps: bool = True,
        stream: StreamRange | None = None,
    ) -> JobDetails:
        with self._store.lock:
            log, streamed = log_and_stream(self._store.logs.get(job_id, []))
            lines = log[-logs:] if logs > 0 else []
            entries = list(self._store.history.get(job_id, ())) if history else []
            stored = list(self._store.steps.get(job_id, ())) if steps else []
        if stream is None:
            return JobDetails(entries, lines, stored)
        first = max(len(streamed) - stream.limit, 0) if stream.first is None else stream.first
        return JobDetails(entries, lines, stored, streamed[first : first + stream.limit])

    def signal(self, job_id: str, name: str, value: str | None, checksum: int | None, now: int | None = None) -> bool:
        at = self._clock.now() if now is None else now
        with self._store.lock:
            job = self._store.jobs.get(job_id)
            if job is None or job.state in FINAL:
                return False
            number = sum((step.kind, step.name) == ("event", name) for step in self._store.steps.get(job_id, ()))
            _save(self._store, job, Step("event", name, number + 1, at, value, checksum), at)
            if job.state is State.SCHEDULED and is_woken_by(job.reason, name):
                self._store.record(job, at, Trigger.PROMOTE_NOW, f"event {name!r} came", target=State.PENDING)
                self._store.go(job, Trigger.PROMOTE_NOW, State.PENDING, **_times(job, at), reason=None)
                self._store.ring("work")
        return True

    def rules(self) -> StoreRules:
        with self._store.lock:
            return StoreRules(sorted(self._store.queues.values(), key=lambda row: row.name), [])

    def pause_queue(self, name: str, paused: bool) -> None:
        with self._store.lock:
            self._store.add_queue(name, self._clock.now())
            self._store.queues[name] = replace(self._store.queues[name], paused=paused)
        self._store.ring("work")

    def workers(self) -> list[WorkerRow]:
        with self._store.lock:
            held = Counter(job.worker for job in self._store.in_states(State.RUNNING))
            rows = [replace(row, running=min(row.concurrency, held[row.id])) for row in self._store.workers.values()]
        return sorted(rows, key=lambda row: (row.started_at, row.id))

    def command_worker(self, worker_id: str, command: str) -> bool:
        with self._store.lock:
            if worker_id not in self._store.workers:
                return False
            self._store.workers[worker_id] = replace(self._store.workers[worker_id], command=command)
        self._store.ring("commands")
        return True

    def _matching(self, which: Filter) -> Iterator[JobRow]:
        """The jobs that match, in the order of submission."""
        return (job for job in sorted(self._store.jobs.values(), key=lambda job: job.seq) if _matches(job, which))


def _matches(job: JobRow, which: Filter) -> bool:
    payload = "" if job.payload.startswith(('{"$sealed"', '{"$stored"')) else job.payload
    text = "\n".join([job.id, job.task, payload, job.reason or "", job.metadata or ""])
    return (
        (not which.ids or job.id in which.ids)
        and (not which.states or job.state in which.states)
        and all(getattr(which, name) in (None, getattr(job, name)) for name in ("queue", "task", "worker", "flow"))
        and (which.tag is None or which.tag in msgspec.json.decode(job.tags or "[]"))
        and (which.text is None or which.text in text)  # an encrypted call is no text
        and (which.since is None or job.created_at >= which.since)
        and (which.until is None or job.created_at < which.until)
    )


def _times(job: JobRow, run_at: int) -> dict[str, int]:
    return {"run_at": run_at, "rank": -run_at if job.rank < 0 else run_at}


def _save(store: MemoryStore, job: JobRow, step: Step, now: int) -> None:
    stored = store.steps.setdefault(job.id, [])
    if (step.kind, step.name, step.number) not in {(each.kind, each.name, each.number) for each in stored}:
        stored.append(step)
        store.record(job, now, step.kind, step.name, version=job.version, finished_at=None)


def _lightened(job: JobRow) -> JobRow:
    long = {name: LEFT_OUT for name in LONG if len((getattr(job, name) or "").encode()) > LONGEST}
    return replace(job, **long) if long else job


def _oldest(jobs: Sequence[JobRow], queue: str, state: State) -> int | None:
    if state is State.WAITING:
        return None
    name = _OLDEST.get(state, "finished_at")
    return min(abs(getattr(job, name)) for job in jobs if (job.queue, job.state) == (queue, state))

"""Server side of workers in other languages, which claim, renew and settle over HTTP.

No state is kept here: a claim returns the job's version, the worker settles with it, and the store decides. This
module does what a Python worker does in its own process: it resolves results of other jobs, decrypts arguments, and
applies the retry policy of the task or the call to failures.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from headrace.app.app import Headrace
from headrace.core.clock import to_ms
from headrace.core.codec import codec
from headrace.core.damaged_records import items_of
from headrace.core.events.log import COMPLETED, STARTED, EventGroup
from headrace.core.jobs import outcomes
from headrace.core.jobs.fingerprint import fingerprint
from headrace.core.jobs.known_tasks import KnownTasks
from headrace.core.jobs.records import (
    Claim,
    ClaimRequest,
    ErrorInfo,
    JobNote,
    JobRow,
    Lease,
    Outcome,
    QueueShare,
    WorkerRow,
)
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import NO_DEADLINE, Suspended, awaiting
from headrace.core.worker_commands import act_of
from headrace.engines.protocol.core import Bell
from headrace.errors import (
    AppClosed,
    CancelJob,
    CorruptPayload,
    EngineUnavailable,
    PermanentError,
    RetryLater,
    Snooze,
)
from headrace.runtime.jobs.encryption import encrypted_note, loaded_claim
from headrace.runtime.jobs.task import Call
from headrace.runtime.payloads.payloads import limit_of
from headrace.runtime.retention.remove_on_finish import RemoveOnFinish
from headrace.runtime.submit.dependencies import in_their_flows
from headrace.runtime.worker.cancel_requests import cancel_requests
from headrace.runtime.worker.claims import ClaimPlanner, Refusal
from headrace.runtime.worker.events import event_group
from headrace.runtime.worker.execution import RunSpec, RunSpecs, outcome_of_error
from headrace.web.remote_steps import store_cost, with_spawned

_REAP_INTERVAL, _REAP_LIMIT = 1.0, 1000
_POLL_INTERVAL = 5.0  # seconds: poll interval for jobs without a notification
_SHUTDOWN_POLL = 0.5  # seconds: at most this long a waiting claim delays the server's shutdown
_MAX_CHARS = 20_000
_NOT_MASKED = "(not stored: the arguments could not be loaded to mask their secrets in it)"
_NOT_IN_TYPE_NAME = re.compile(r"[^\w.$:-]+")


def never_disconnected() -> bool:
    """The `is_disconnected` of a request that does not wait: always False."""
    return False


class RemoteClaim(Struct, frozen=True):
    """A claimed job with decrypted arguments."""

    claim: Claim
    run_spec: RunSpec
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata; empty if damaged."""
        return cast("dict[str, Any]", items_of(self.claim.metadata or "{}", dict))


class AttemptResult(Struct, frozen=True, kw_only=True):
    """The outcome of an attempt from its worker. `delay` is in seconds; `spawn` makes the calls that a success adds.

    `cost` are the units that it has used, None if they are those of the job.
    """

    id: str
    version: int
    outcome: str
    result: Any = None
    error: ErrorInfo | None = None
    is_permanent: bool = False
    delay: float | None = None
    reason: str | None = None
    event: str | None = None
    event_number: int = 1
    spawn: Callable[[], list[Call[Any]]] | None = None
    cost: int | None = None


class RemoteSettleResult(Struct, frozen=True):
    """Whether an outcome was accepted, and the state of the job afterwards; None if the job is gone."""

    id: str
    applied: bool
    state: State | None


class RemoteWorkers:
    """Serves the HTTP workers of one app."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        settings, payloads = app.settings, app.services.payloads
        self._run_specs = RunSpecs(app.task_by_name, settings.timeout, limit_of(payloads, settings), payloads)
        self._planner = ClaimPlanner(app.engine, self._run_specs)
        self._removals = RemoveOnFinish(app.engine, self._run_specs.removing)
        self._reap_at = 0.0
        self._seen_tasks: set[str] = set()  # tasks of jobs claimed here by any worker
        self._is_closed = False

    # -- claiming

    def claim(
        self,
        worker: WorkerRow,
        tasks: Sequence[str],
        request: ClaimRequest,
        wait: float,
        held: Sequence[Lease] | None = None,
        is_disconnected: Callable[[], bool] = never_disconnected,
    ) -> list[RemoteClaim]:
        """Claim jobs, waiting up to `wait` seconds; none if the worker has disconnected.

        With `held`, jobs that the worker was given in a lost response are released.
        """
        engine, until = self._app.engine, time.monotonic() + wait
        names = frozenset(tasks)
        request = structs.replace(request, known=KnownTasks(names.__contains__, self._seen_tasks & names))
        if held is not None:
            engine.release_unknown_claims(worker.id, held)
        if act_of(engine.renew(worker, held or (), request.lease).command) != "run":
            return []
        bell = engine.listen("work", [share.queue for share in request.shares])
        try:
            while True:
                self._reap()
                remote_claims, next_at = self._claim_once(worker.id, request)
                if remote_claims or not self._sleep(bell, until, next_at, is_disconnected):
                    return remote_claims
        finally:
            bell.close()

    def _sleep(self, bell: Bell, until: float, next_at: int | None, is_disconnected: Callable[[], bool]) -> bool:
        """Wait until a claim may succeed; False after `until`, or if the worker has disconnected."""
        due = _POLL_INTERVAL if next_at is None else (next_at - self._now()) / 1000
        wake_at = min(time.monotonic() + max(due, 0.01), until)
        while not (self._is_closed or is_disconnected()) and (left := wake_at - time.monotonic()) > 0:
            if bell.wait(min(left, _SHUTDOWN_POLL)):
                break
        return not (self._is_closed or is_disconnected()) and time.monotonic() < until

    def close(self) -> None:
        """End waiting claims."""
        self._is_closed = True

    def _claim_once(self, worker: str, request: ClaimRequest) -> tuple[list[RemoteClaim], int | None]:
        engine = self._app.engine
        exchanged = engine.exchange((), request)
        self._seen_tasks.update(claim.task for claim in exchanged.claims)
        refused: list[Refusal] = []
        remote_claims: list[RemoteClaim] = []
        for found in self._planner.planned(exchanged.claims):
            assert found is not None  # an unknown task has default options
            answer = found if isinstance(found, Refusal) else self._remote_claim(*found)
            refused.append(answer) if isinstance(answer, Refusal) else remote_claims.append(answer)
        if refused:
            failed = [refusal.outcome(self._now()) for refusal in refused]
            engine.exchange(self._with_dead_letter(failed), None)
        self._removals.note()  # retention may have no other worker to run it
        self._emit_started(worker, [remote_claim.claim for remote_claim in remote_claims])
        return remote_claims, exchanged.next_at if not refused else self._now()

    def _remote_claim(self, claim: Claim, run_spec: RunSpec) -> RemoteClaim | Refusal:
        try:
            loaded = run_spec.loaded(claim)
            codec.verify(loaded.payload, loaded.checksum)
            return RemoteClaim(claim, run_spec, *codec.decode_call(loaded.payload))
        except (CorruptPayload, Snooze) as error:
            return Refusal(claim, "corrupt_payload", error)

    def _with_dead_letter(self, done: Iterable[Outcome]) -> list[Outcome]:
        return outcomes.with_dead_letter(list(done), self._app.settings.dead_letters)

    def _reap(self) -> None:
        """Recover expired leases, as any worker does: there may be no Python worker."""
        if time.monotonic() >= self._reap_at:
            self._reap_at = time.monotonic() + _REAP_INTERVAL
            settings = self._app.settings
            self._app.engine.reap(_REAP_LIMIT, settings.max_crashes, dead_letters=settings.dead_letters)

    # -- renewing

    def renew(
        self, worker: WorkerRow, leases: Sequence[Lease], notes: Sequence[JobNote], ttl: int
    ) -> tuple[set[str], str]:
        """Renew leases; return the ids of lost jobs and the operator's command."""
        if notes:
            self._app.engine.exchange((), None, [encrypted_note(self._app.cipher, note) for note in notes])
        renewal = self._app.engine.renew(worker, leases, ttl)
        return {lease.id for lease in renewal.lost}, act_of(renewal.command)

    def unregister(self, worker_id: str) -> None:
        self._app.engine.unregister_worker(worker_id)

    # -- settling

    def settle(self, worker: str, results: Sequence[AttemptResult]) -> list[RemoteSettleResult]:
        """Settle the outcomes in one commit; the store refuses those with an outdated version."""
        engine = self._app.engine
        rows = {row.id: row for row in engine.queries.get([result.id for result in results])}
        decided: dict[str, Outcome] = {}
        for result in results:
            row = rows.get(result.id)
            if row is not None and (row.version, row.worker, row.state) == (result.version, worker, State.RUNNING):
                outcome = self._outcome(_claim_of(row), result)
                decided[result.id] = structs.replace(outcome, units=result.cost)
                store_cost(self._app, _claim_of(row), result.cost)
        late = [Lease(result.id, result.version) for result in results if result.id not in decided]
        for asked in cancel_requests(engine.queries, worker, late).values():
            decided[asked.lease.id] = outcomes.cancel(asked.lease, asked.reason, self._now())
        if not decided:
            return [_settle_result(result, rows, {}) for result in results]
        events = self._completed_events(worker, [rows[job_id] for job_id in decided], decided)
        settled = in_their_flows(engine.queries, self._with_dead_letter(decided.values()))
        refused = {outcome.id for outcome in engine.exchange(settled, None, groups=events).refused}
        applied = {job_id: outcome.state for job_id, outcome in decided.items() if job_id not in refused}
        # A success may have to wait for jobs that it spawned, which only the store knows.
        linked = [one.id for one in settled if one.spawned or rows[one.id].has_dependencies]
        applied |= {row.id: row.state for row in engine.queries.get(linked, light=True) if row.id in applied}
        return [_settle_result(result, rows, applied) for result in results]

    def _outcome(self, claim: Claim, result: AttemptResult) -> Outcome:
        run_spec, now = self._run_spec(claim), self._now()
        if result.outcome == "success":
            return self._success(claim, run_spec, result, now)
        if result.outcome == "release":
            return outcomes.release(claim, result.reason or "released by its worker", now)
        error = _as_exception(result, now)
        outcome = outcome_of_error(run_spec, claim, error, self._now)
        error_info = result.error
        if error_info is None or outcome.error_type is None:
            return outcome
        error_info = self._masked(run_spec, claim, error_info)
        error_fingerprint = fingerprint(claim.task, error_info, outcome.reason or "") if outcome.fingerprint else ""
        error_fields = {
            "error_type": error_info.type,
            "error_message": error_info.message,
            "error_traceback": error_info.traceback,
        }
        return structs.replace(outcome, fingerprint=error_fingerprint, **error_fields)

    def _masked(self, run_spec: RunSpec, claim: Claim, error_info: ErrorInfo) -> ErrorInfo:
        """The error with the job's secrets masked; without its texts if these can't be loaded any more."""
        try:
            loaded = loaded_claim(self._app.services.payloads, claim)
        except (CorruptPayload, EngineUnavailable):
            return structs.replace(error_info, message=_NOT_MASKED, traceback="")
        return run_spec.masked(loaded, error_info)

    def _success(self, claim: Claim, run_spec: RunSpec, result: AttemptResult, now: int) -> Outcome:
        try:
            calls = [] if result.spawn is None else result.spawn()
            return with_spawned(claim, run_spec.success(claim, result.result, now), calls, now)
        except (AppClosed, EngineUnavailable):
            raise
        except Exception as error:  # an invalid job, or one that a hook refuses, must not block the other outcomes
            return outcome_of_error(run_spec, claim, error, self._now)

    def _run_spec(self, claim: Claim) -> RunSpec:
        run_spec = self._run_specs.plan(claim)
        assert run_spec is not None  # an unknown task has default options
        self._removals.note()  # retention may have no other worker to run it
        return run_spec

    # -- events

    def _emit_started(self, worker: str, claims: Sequence[Claim]) -> None:
        if not claims or not self._app.settings.events:
            return
        now = self._now()
        waits = [(claim.id, claim.attempt, now - max(claim.created_at, claim.run_at), 0) for claim in claims]
        groups = [
            event_group(STARTED, claim.queue, claim.task, [row], now, worker)
            for claim, row in zip(claims, waits, strict=True)
        ]
        self._app.engine.events.append(groups)

    def _completed_events(self, worker: str, rows: Sequence[JobRow], decided: dict[str, Outcome]) -> list[EventGroup]:
        if not self._app.settings.events:
            return []
        ended = [(row, decided[row.id].at) for row in rows if decided[row.id].state is State.COMPLETED]
        return [
            event_group(
                *(COMPLETED, row.queue, row.task, [(row.id, row.attempt, 0, at - (row.started_at or row.run_at))]),
                *(at, worker),
            )
            for row, at in ended
        ]

    def _now(self) -> int:
        return self._app.clock.now()


def claim_request(
    worker: str, queues: dict[str, int], limit: int, lease: float, capabilities: Sequence[str]
) -> ClaimRequest:
    """The claim request of a worker. Queues are ordered by weight; none means all."""
    order = sorted(queues, key=lambda queue: -queues[queue] * random.random())
    shares = tuple(QueueShare(queue, limit) for queue in order)
    return ClaimRequest(worker, limit, to_ms(lease), shares, not queues, tuple(capabilities))


def job_note(lease: Lease, at: int, **report: Any) -> JobNote:
    """The stored note of a progress report or a log line."""
    progress, fields = report.get("progress"), report.get("fields")
    return JobNote(
        lease.id,
        lease.version,
        at,
        None if progress is None else codec.encode(progress, where="progress"),
        report.get("level"),
        report.get("message"),
        None if not fields else codec.encode(fields, where="fields"),
    )


def clean(text: str) -> str:
    """Replace NUL as Python workers do: SQLite truncates a text at a NUL in places."""
    return text[:_MAX_CHARS].replace("\x00", "\ufffd")


def clean_error(kind: str, message: str, traceback: str) -> ErrorInfo:
    """The stored error, of bounded length."""
    return ErrorInfo(_NOT_IN_TYPE_NAME.sub("_", kind)[:200] or "Error", clean(message), clean(traceback))


def _as_exception(result: AttemptResult, now: int) -> BaseException:
    """An exception for the retry policies, which match errors by class or dotted name."""
    error_info = result.error or ErrorInfo("Error", result.reason or "")
    if result.outcome == "wait":
        wait = NO_DEADLINE if result.delay is None else to_ms(min(result.delay, NO_DEADLINE / 1000))
        name = result.event or ""
        return Suspended(now + wait, awaiting(name), ((name, result.event_number),))
    if result.outcome == "snooze":
        return Snooze(result.delay or 0.0, result.reason or "snoozed")
    if result.outcome == "cancel":
        return CancelJob(result.reason or "cancelled by its worker")
    if result.is_permanent:
        return PermanentError(error_info.message)
    if result.delay is not None:
        return RetryLater(error_info.message, delay=result.delay)
    module, _, name = error_info.type.rpartition(".")
    kind: type[Exception] = type(name or "Error", (Exception,), {"__module__": module})
    return kind(error_info.message)


def _claim_of(row: JobRow) -> Claim:
    fields = {name: getattr(row, name) for name in Claim.__struct_fields__ if name != "ref"}
    return Claim(ref=row.seq, **fields)


def _settle_result(result: AttemptResult, rows: dict[str, JobRow], applied: dict[str, State]) -> RemoteSettleResult:
    if (state := applied.get(result.id)) is not None:
        return RemoteSettleResult(result.id, True, state)
    row = rows.get(result.id)
    return RemoteSettleResult(result.id, False, None if row is None else row.state)


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()

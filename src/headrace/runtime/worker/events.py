"""The events that a worker sends with its exchanges: started and succeeded runs, and the notes of runs.

The store itself emits all other events of a job. An event stays here until an exchange has delivered it: if an answer
is lost, the next exchange sends the event again, and the store drops duplicates.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headrace.core.events.log import COMPLETED, RAN, STARTED, EventGroup
from headrace.core.jobs.details import STREAM
from headrace.core.jobs.records import Claim, JobNote, Lease, Outcome, WorkerRow
from headrace.core.jobs.states import Trigger
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.worker.attempt import Attempt
from headrace.runtime.worker.state import WorkerState

WITHIN = 0.25  # seconds that the start of a long run may wait for an exchange
_MAX_LINE_CHARS = 500  # characters of a log line: an event is a hint, the job has the full text
_SEALED = '{"$sealed"'
_Kind = tuple[str, str, str]  # the event type, queue and task
AttemptRow = tuple[str, int, int, int]  # a job, its attempt, and its wait and run time in milliseconds


class WorkerEvents:
    """A worker's service that emits worker.started and worker.stopped."""

    def __init__(self, engine: Engine, worker: WorkerRow) -> None:
        self._engine = engine
        self._worker = worker

    def start(self) -> None:
        worker = self._worker
        about = {"host": worker.host, "pid": worker.pid, "concurrency": worker.concurrency}
        self._emit("worker.started", about | {"queues": list(msgspec.json.decode(worker.queues))})

    def stop(self) -> None:
        with contextlib.suppress(EngineUnavailable):
            self._emit("worker.stopped", {"host": self._worker.host, "pid": self._worker.pid})

    def _emit(self, kind: str, data: dict[str, Any]) -> None:
        self._engine.events.append([EventGroup(kind, self._engine.clock.now(), worker=self._worker.id, data=[data])])


class AttemptEvents:
    """The events of one worker's attempts. Only the thread that makes the exchanges uses it."""

    def __init__(self, worker_id: str, worker_state: WorkerState, *, enabled: bool) -> None:
        self._worker_id = worker_id
        self._worker_state = worker_state
        self._enabled = enabled
        self._offered = 0  # how many starts the last events covered

    def is_due(self) -> bool:
        """Whether a start has waited long enough to be sent without an outcome."""
        begun = self._worker_state.begun
        return bool(begun) and time.monotonic() - begun[0].started >= WITHIN

    @property
    def has_events(self) -> bool:
        return self._enabled and bool(self._worker_state.begun)

    def events(self, done: Sequence[Attempt], notes: Sequence[JobNote]) -> list[EventGroup]:
        """The events to send with this exchange; none if they can wait for a later one."""
        self._offered = 0
        if not self._enabled:
            self._worker_state.begun.clear()
            return []
        if not (done or notes or self.is_due()):
            return []
        success, now = Trigger.SUCCEED, self._worker_state.now()
        successes = {attempt: attempt.outcome for attempt in done if attempt.outcome.event is success}
        noted_leases = {note.lease for note in notes}
        rows = self._begun(successes, noted_leases, now)
        begun = [event_group(*kind, some, now, self._worker_id) for kind, some in rows.items()]
        attempts = self._worker_state.attempts
        note_events = noted(
            notes, {each: attempts[each].claim for each in noted_leases if each in attempts}, self._worker_id
        )
        ended = [event_group(*kind, some, now, self._worker_id) for kind, some in self._ended(successes).items()]
        return [*begun, *note_events, *ended]

    def delivered(self) -> None:
        """The store has stored the last events."""
        for _ in range(self._offered):
            self._worker_state.begun.popleft()
        self._offered = 0

    def _begun(
        self, successes: dict[Attempt, Outcome], noted: set[Lease], now: int
    ) -> defaultdict[_Kind, list[AttemptRow]]:
        """The runs that began, with the end of those that succeeded; these are removed from `successes`.

        The notes of a run come between its start and its end, so the end of a run with notes is reported separately.
        """
        rows: defaultdict[_Kind, list[AttemptRow]] = defaultdict(list)
        # Listed after the outcomes were taken: every ended run is among those that began.
        since, begun = time.monotonic(), list(self._worker_state.begun)
        for attempt in begun:  # kept lean: every job passes here
            claim = attempt.claim
            start = attempt.began_at = now - int((since - attempt.started) * 1000)
            wait = start - max(claim.run_at, claim.created_at)
            outcome = successes.get(attempt)
            if outcome is not None and not (noted and attempt.lease in noted):
                del successes[attempt]
                rows[RAN, claim.queue, claim.task].append((claim.id, claim.attempt, wait, outcome.at - start))
            else:
                rows[STARTED, claim.queue, claim.task].append((claim.id, claim.attempt, wait, now - start))
        self._offered = len(begun)
        return rows

    def _ended(self, successes: dict[Attempt, Outcome]) -> dict[_Kind, list[AttemptRow]]:
        rows: defaultdict[_Kind, list[AttemptRow]] = defaultdict(list)
        for attempt, outcome in successes.items():
            claim, began = attempt.claim, attempt.began_at or outcome.at
            rows[COMPLETED, claim.queue, claim.task].append((claim.id, claim.attempt, 0, outcome.at - began))
        return rows


def noted(notes: Sequence[JobNote], claims: Mapping[Lease, Claim], worker: str) -> list[EventGroup]:
    """The events of the notes of runs: the latest progress of each, every log line, and that there are new chunks."""
    newest = {note.lease: note for note in notes if note.progress is not None}
    events = [("job.progress", note, _progress(note)) for note in newest.values()]
    events += [("job.log", note, _line(note)) for note in notes if note.message is not None and note.level != STREAM]
    events += [("job.stream", note, {}) for note in notes if note.level == STREAM]
    return [
        EventGroup(
            *(kind, note.at, claim.queue, claim.task, worker, [claim.id], [claim.attempt]),
            data=[data] if data else [],
        )
        for kind, note, data in events
        if (claim := claims.get(note.lease)) is not None
    ]


def event_group(kind: str, queue: str, task: str, rows: Sequence[AttemptRow], at: int, worker: str) -> EventGroup:
    """The event of this kind for attempts of one queue and task, by columns."""
    jobs, attempts, waits, runs = map(list, zip(*rows, strict=True))
    head = (kind, at, queue, task, worker, jobs, attempts)
    waits, runs = _not_negative(waits), _not_negative(runs)
    if kind == STARTED:
        return EventGroup(*head, waits, [], runs)
    return EventGroup(*head, waits if kind == RAN else [], runs)


def _not_negative(durations: list[int]) -> list[int]:
    """A clock may be set back."""
    return durations if min(durations) >= 0 else [max(each, 0) for each in durations]


def _progress(note: JobNote) -> dict[str, Any]:
    """The progress, unless it is encrypted: every viewer can read events."""
    if note.progress is None or note.progress.startswith(_SEALED):
        return {}
    return {"progress": msgspec.json.decode(note.progress)}


def _line(note: JobNote) -> dict[str, Any]:
    if note.message is None or note.message.startswith(_SEALED):
        return {"level": note.level}
    return {"level": note.level, "message": note.message[:_MAX_LINE_CHARS]}

"""The events that a worker sends with its exchanges: started and succeeded runs, and the notes of runs.

The store itself emits all other events of a job. An event stays here until an exchange has delivered it: if an answer
is lost, the next exchange sends the event again, and the store drops duplicates.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Any

import msgspec

from headrace.core.events.log import COMPLETED, RAN, STARTED, EventGroup
from headrace.core.jobs.records import Claim, JobNote, Lease, Outcome, WorkerRow
from headrace.core.jobs.states import Trigger
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.worker.state import Attempt, WorkerState

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
        self._unsent: list[Attempt] = []
        self._offered = 0  # how many of these the last events covered
        self._continuing: dict[Lease, int] = {}  # those of them that had not succeeded, and when they began
        self._began: dict[Lease, int] = {}

    def is_due(self) -> bool:
        """Whether a start has waited long enough to be sent without an outcome."""
        self._take_begun()
        return bool(self._unsent) and time.monotonic() - self._unsent[0].started >= WITHIN

    @property
    def has_events(self) -> bool:
        return self._enabled and bool(self._unsent or self._worker_state.begun)

    def events(self, done: Sequence[Outcome], notes: Sequence[JobNote]) -> list[EventGroup]:
        """The events to send with this exchange; none if they can wait for a later one."""
        self._take_begun()  # after the outcomes were taken: every ended run has begun
        self._offered, self._continuing = 0, {}
        if not self._enabled or not (done or notes or self.is_due()):
            return []
        success, now = Trigger.SUCCEED, self._worker_state.now()
        successes = {outcome.id: outcome for outcome in done if outcome.event is success}
        rows = self._begun(successes, {note.lease for note in notes}, now)
        begun = [event_group(*kind, some, now, self._worker_id) for kind, some in rows.items()]
        claims = {lease: run.claim for lease, run in list(self._worker_state.open_attempts.items())} if notes else {}
        note_events = noted(notes, claims, self._worker_id)
        ended = [event_group(*kind, some, now, self._worker_id) for kind, some in self._ended(successes).items()]
        return [*begun, *note_events, *ended]

    def delivered(self, done: Sequence[Outcome]) -> None:
        """The store has stored the last events, with these outcomes."""
        del self._unsent[: self._offered]
        self._began |= self._continuing
        self._offered, self._continuing = 0, {}
        if self._began:
            for outcome in done:
                self._began.pop(outcome.lease, None)
        open_attempts = self._worker_state.open_attempts
        if len(self._began) > 2 * len(open_attempts) + 100:  # drop abandoned runs
            self._began = {lease: at for lease, at in self._began.items() if lease in open_attempts}

    def _take_begun(self) -> None:
        begun = self._worker_state.begun
        taken = [begun.popleft() for _ in range(len(begun))]
        if self._enabled:
            self._unsent += taken

    def _begun(
        self, successes: dict[str, Outcome], noted: Container[Lease], now: int
    ) -> defaultdict[_Kind, list[AttemptRow]]:
        """The runs that began, with the end of those that succeeded; these are removed from `successes`.

        The notes of a run come between its start and its end, so the end of a run with notes is reported separately.
        """
        rows: defaultdict[_Kind, list[AttemptRow]] = defaultdict(list)
        since, unsent = time.monotonic(), self._unsent
        for run in unsent:  # kept lean: every job passes here
            claim = run.claim
            start = now - int((since - run.started) * 1000)
            wait = start - max(claim.run_at, claim.created_at)
            outcome = successes.get(claim.id)
            if outcome is not None and outcome.version == claim.version and claim.lease not in noted:
                del successes[claim.id]
                rows[RAN, claim.queue, claim.task].append((claim.id, claim.attempt, wait, outcome.at - start))
            else:
                self._continuing[claim.lease] = start
                rows[STARTED, claim.queue, claim.task].append((claim.id, claim.attempt, wait, now - start))
        self._offered = len(unsent)
        return rows

    def _ended(self, successes: dict[str, Outcome]) -> dict[_Kind, list[AttemptRow]]:
        rows: defaultdict[_Kind, list[AttemptRow]] = defaultdict(list)
        for outcome in successes.values():
            lease = outcome.lease
            if (run := self._worker_state.open_attempts.get(lease)) is not None:
                claim, began = run.claim, self._continuing.get(lease) or self._began.get(lease, outcome.at)
                rows[COMPLETED, claim.queue, claim.task].append((claim.id, claim.attempt, 0, outcome.at - began))
        return rows


def noted(notes: Sequence[JobNote], claims: Mapping[Lease, Claim], worker: str) -> list[EventGroup]:
    """The events of the notes of runs: the latest progress of each, and every log line."""
    newest = {note.lease: note for note in notes if note.progress is not None}
    events = [("job.progress", note, _progress(note)) for note in newest.values()]
    events += [("job.log", note, _line(note)) for note in notes if note.message is not None]
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

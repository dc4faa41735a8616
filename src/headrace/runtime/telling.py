"""What a worker tells with its turns: which runs began and which succeeded, and what they noted meanwhile.

All else that becomes of a job is told by the store. Nothing here is forgotten before a turn has brought it there: if
the answer was lost, the next turn tells it once more, and the store drops what it has taken already.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headrace.core.model import Claim, Note, Outcome
from headrace.core.pages import COMPLETED, RAN, STARTED, Group
from headrace.core.states import Event
from headrace.runtime.crew import Crew, Run

WITHIN = 0.25  # seconds: how long the start of a long run may wait for a turn
_LONGEST = 500  # characters of a log line: an event is a hint, the job has the whole of it
_SEALED = '{"$sealed"'
_Key = tuple[str, int]


class Teller:
    """One worker's news. Only the thread that makes the turns uses it."""

    def __init__(self, worker_id: str, crew: Crew, held: Mapping[_Key, Claim], *, tells: bool) -> None:
        self._worker_id = worker_id
        self._crew = crew
        self._held = held
        self._tells = tells
        self._untold: list[Run] = []
        self._began: dict[_Key, int] = {}

    def is_due(self) -> bool:
        """Whether a start has waited long enough to be told by itself."""
        self._take_begun()
        return bool(self._untold) and time.monotonic() - self._untold[0].started >= WITHIN

    @property
    def has_news(self) -> bool:
        return self._tells and bool(self._untold or self._crew.begun)

    def news(self, done: Sequence[Outcome], notes: Sequence[Note]) -> list[Group]:
        """What a turn with these outcomes and notes has to tell; nothing if it can wait for a better one."""
        self._take_begun()  # after the outcomes were taken: whatever has ended has begun
        if not self._tells or not (done or notes or self.is_due()):
            return []
        columns: dict[tuple[str, str, str], _Columns] = {}
        now, successes = self._crew.now(), {}
        for outcome in done:
            if outcome.event is Event.SUCCEED:
                successes[outcome.id, outcome.version] = outcome
        self._add_begun(columns, successes, now)
        for key, outcome in successes.items():
            if (claim := self._held.get(key)) is not None:
                run = outcome.at - self._began.get(key, outcome.at)
                _column(columns, COMPLETED, claim).add(claim, 0, run)
        groups = [each.group(*key, now, self._worker_id) for key, each in columns.items()]
        return [*groups, *self._noted(notes)]

    def told(self, done: Sequence[Outcome]) -> None:
        """The store has it all, with these outcomes."""
        if self._untold:
            since, now = time.monotonic(), self._crew.now()
            for run in self._untold:
                self._began[run.claim.id, run.claim.version] = now - int((since - run.started) * 1000)
            self._untold = []
        for outcome in done:
            self._began.pop((outcome.id, outcome.version), None)
        if len(self._began) > 2 * len(self._held) + 100:  # runs that were abandoned
            self._began = {key: at for key, at in self._began.items() if key in self._held}

    def _take_begun(self) -> None:
        begun = self._crew.begun
        while begun:
            run = begun.popleft()
            if self._tells:
                self._untold.append(run)

    def _add_begun(
        self, columns: dict[tuple[str, str, str], _Columns], successes: dict[_Key, Outcome], now: int
    ) -> None:
        since = time.monotonic()
        for run in self._untold:
            claim = run.claim
            start = now - int((since - run.started) * 1000)
            wait = start - (max(claim.created_at, claim.run_at))
            outcome = successes.pop((claim.id, claim.version), None)
            if outcome is None:
                _column(columns, STARTED, claim).add(claim, wait, now - start)
            else:
                _column(columns, RAN, claim).add(claim, wait, outcome.at - start)

    def _noted(self, notes: Sequence[Note]) -> list[Group]:
        newest = {(note.id, note.version): note for note in notes if note.progress is not None}
        told = [("job.progress", note, _progress(note)) for note in newest.values()]
        told += [("job.log", note, _line(note)) for note in notes if note.message is not None]
        return [
            Group(
                *(kind, note.at, claim.queue, claim.task, self._worker_id, [claim.id], [claim.attempt]),
                data=[data] if data else [],
            )
            for kind, note, data in told
            if (claim := self._held.get((note.id, note.version))) is not None
        ]


class _Columns:
    """Jobs of one queue and task of which the same is told."""

    __slots__ = ("attempts", "jobs", "runs", "waits")

    def __init__(self) -> None:
        self.jobs: list[str] = []
        self.attempts: list[int] = []
        self.waits: list[int] = []
        self.runs: list[int] = []

    def add(self, claim: Claim, wait: int, run: int) -> None:
        self.jobs.append(claim.id)
        self.attempts.append(claim.attempt)
        self.waits.append(max(0, wait))
        self.runs.append(max(0, run))

    def group(self, kind: str, queue: str, task: str, at: int, worker: str) -> Group:
        known = (kind, at, queue, task, worker, self.jobs, self.attempts)
        if kind == STARTED:
            return Group(*known, self.waits, [], self.runs)
        return Group(*known, self.waits if kind == RAN else [], self.runs)


def _column(columns: dict[tuple[str, str, str], _Columns], kind: str, claim: Claim) -> _Columns:
    key = (kind, claim.queue, claim.task)
    found = columns.get(key)
    if found is None:
        found = columns[key] = _Columns()
    return found


def _progress(note: Note) -> dict[str, Any]:
    """The progress itself, unless it is sealed: events are for everybody who may look."""
    if note.progress is None or note.progress.startswith(_SEALED):
        return {}
    return {"progress": msgspec.json.decode(note.progress)}


def _line(note: Note) -> dict[str, Any]:
    if note.message is None or note.message.startswith(_SEALED):
        return {"level": note.level}
    return {"level": note.level, "message": note.message[:_LONGEST]}

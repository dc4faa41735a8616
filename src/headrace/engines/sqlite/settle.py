"""Stores the notes and outcomes of a worker's exchange."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from headrace.core.events.log import EventGroup, narrowed, page
from headrace.core.jobs.records import JobNote, Outcome
from headrace.core.jobs.states import Trigger
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import dependencies, steps
from headrace.engines.sql.dependencies import Wakeups
from headrace.engines.sql.records import Completion
from headrace.engines.sqlite import insert
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite.transaction import SqliteTransaction
from headrace.engines.sqlite_file.database import scalar

_numbers = msgspec.json.Decoder(list[int])


def note(db: sqlite3.Connection, notes: Sequence[JobNote]) -> None:
    progress = {(note.id, note.version): note for note in notes if note.progress is not None}  # the last of each
    if progress:
        db.execute(SQL["note_progress"], {"n": as_json(list(progress.values()))})
    if lines := [note for note in notes if note.message is not None]:
        db.execute(SQL["note_logs"], {"n": as_json(lines)})


class SettleRun:
    """The outcomes of one exchange. `dependencies_first` saves a failing attempt where many jobs have dependencies."""

    def __init__(self, db: sqlite3.Connection, now: int, *, dependencies_first: bool) -> None:
        self._db = db
        self._now = now
        self._dependencies_first = dependencies_first
        self._completed: list[Outcome] = []
        self.effects = Wakeups()
        self.had_dependencies = False

    def settle_with_events(
        self, outcomes: Sequence[Outcome], worker: str | None, groups: Sequence[EventGroup]
    ) -> list[Outcome]:
        """Settle, and append the worker's events before those that follow from them."""
        seq = insert.append_events(self._db, page(groups)) if groups else 0
        refused = self.settle(outcomes, worker) if outcomes else []
        if groups and len(self._completed) < len([o for o in outcomes if o.event is Trigger.SUCCEED]):
            corrected = page(narrowed(groups, {outcome.id for outcome in self._completed}))
            self._db.execute(SQL["correct_page"], {"cursor": seq, "page": corrected.text})
        return refused

    def settle(self, outcomes: Sequence[Outcome], worker: str | None) -> list[Outcome]:
        """Settle current outcomes; record and return the stale ones."""
        left = self._settle_linked(outcomes) if self._dependencies_first else outcomes
        if not left or self._settle_whole(left):
            return []
        fresh, stale = _divide(self._db, left)
        rest = self._settle_linked(fresh)
        stale += [outcome for outcome in rest if outcome.spawned]  # refused: the store has moved
        rest = [outcome for outcome in rest if not outcome.spawned]
        while rest and not self._settle_whole(rest):
            before, rest = rest, self._settle_linked(rest)  # a spawned job has added a dependency
            assert len(rest) < len(before), "a current outcome without dependencies can be settled"
        if stale:
            self._db.execute(SQL["record_stale"], {"o": as_json(stale), "now": self._now, "worker": worker})
        return stale

    def _settle_linked(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Settle the outcomes of jobs with dependencies; the other outcomes."""
        writer = _SqliteSettleWriter(self._db)
        settled = dependencies.settle(SqliteTransaction(self._db), outcomes, writer, self._now)
        self._completed += writer.completed
        self.effects.add(settled.effects)
        self.had_dependencies |= bool(settled.places)
        return [outcome for place, outcome in enumerate(outcomes) if place not in settled.places]

    def _settle_whole(self, outcomes: Sequence[Outcome]) -> bool:
        """Apply the outcomes; False, and nothing done, if any is stale or its job has dependencies."""
        if any(outcome.spawned for outcome in outcomes):
            return False
        self._db.execute("SAVEPOINT settle")
        done = [outcome for outcome in outcomes if outcome.event is Trigger.SUCCEED]
        applied = _complete(self._db, done, 0) if done else 0
        if len(done) < len(outcomes):
            applied += _settle(self._db, [o for o in outcomes if o.event is not Trigger.SUCCEED], 0)
        is_complete = applied == len(outcomes)
        if not is_complete:
            self._db.execute("ROLLBACK TO settle")
        self._db.execute("RELEASE settle")
        self._completed += done if is_complete else []
        return is_complete


class _SqliteSettleWriter:
    """Settles jobs with dependencies."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.completed: list[Outcome] = []

    def complete(self, outcomes: list[Outcome]) -> None:
        _complete(self._db, outcomes, 1)
        self.completed += outcomes

    def settle(self, outcomes: list[Outcome]) -> None:
        _settle(self._db, outcomes, 1)


def _complete(db: sqlite3.Connection, outcomes: list[Outcome], with_dependencies: int) -> int:
    done = [Completion(o.id, o.version, o.result, o.result_checksum, o.finished_at) for o in outcomes]
    return db.execute(SQL["complete"], {"o": as_json(done), "with_dependencies": with_dependencies}).rowcount


def _settle(db: sqlite3.Connection, outcomes: list[Outcome], with_dependencies: int) -> int:
    """Settle outcomes other than plain successes, recording what the row is about to lose."""
    if recorded := [outcome for outcome in outcomes if not outcome.quiet]:
        db.execute(SQL["record_outcomes"], {"o": as_json(recorded)})
    if failed := [outcome for outcome in outcomes if outcome.event is Trigger.FAIL and outcome.opens_dead_letter]:
        db.execute(SQL["add_dead_letters_of_outcomes"], {"o": as_json(failed)})
    applied = db.execute(SQL["settle"], {"o": as_json(outcomes), "with_dependencies": with_dependencies}).rowcount
    steps.wake_if_come(SqliteTransaction(db), outcomes)
    return applied


def _divide(db: sqlite3.Connection, outcomes: Sequence[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    stale_positions = set(_numbers.decode(scalar(db, SQL["stale_outcomes"], {"o": as_json(outcomes)})))
    fresh: dict[str, Outcome] = {}
    stale: list[Outcome] = []
    for index, outcome in enumerate(outcomes):
        if index in stale_positions or outcome.id in fresh:  # a second outcome of one claim is stale as well
            stale.append(outcome)
        else:
            fresh[outcome.id] = outcome
    return list(fresh.values()), stale

"""Inserts jobs into PostgreSQL: one job in one statement, many in one, and again after a lost answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import psycopg
from msgspec import structs

from headrace.core.events.log import arrivals, page
from headrace.core.jobs.records import NewJob
from headrace.engines.postgres.connections import Connection, ConnectionLost, ConnectionPool, scalar
from headrace.engines.postgres.text_statement import TextStatement
from headrace.engines.postgres.transaction import (
    PostgresTransaction,
    event_params,
    first_of_each,
    storable,
)
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import unique_insert
from headrace.engines.sql.rules_cache import RulesCache
from headrace.errors import DuplicateJob

_names = msgspec.json.Decoder(list[str])


class Insert:
    """Inserts jobs without unique keys or dependencies."""

    def __init__(
        self,
        server: ConnectionPool,
        sql: Mapping[str, str],
        channel: str,
        record_events: bool,
        refuse_if_moved: Callable[[], None],
    ) -> None:
        self._server = server
        self._sql = sql
        self._one = TextStatement(sql["insert_one"])
        self._channel = channel
        self._record_events = record_events
        self._refuse_if_moved = refuse_if_moved
        self._known_queues: set[str] = set()

    def __call__(
        self, jobs: Sequence[NewJob], all_or_nothing: bool, now: int, rules: Callable[[], RulesCache]
    ) -> list[bool]:
        """Which of the jobs are new. `rules` are read again for each try."""
        try:
            return self._insert(jobs, all_or_nothing, now, rules)
        except ConnectionLost:
            return self._insert_again(jobs, all_or_nothing, now, rules)

    def forget(self) -> None:
        """Forget the known queues: the tables may be others."""
        self._known_queues.clear()

    def _insert(
        self, jobs: Sequence[NewJob], all_or_nothing: bool, now: int, rules: Callable[[], RulesCache]
    ) -> list[bool]:
        names = {job.queue for job in jobs}
        known = rules()
        lengths, jobs = known.lengths_of(names), known.with_lanes(jobs)
        if (
            len(jobs) == 1
            and jobs[0].tags is None
            and not all_or_nothing
            and not lengths
            and names <= self._known_queues
        ):
            return [self._insert_one(jobs[0])]
        values = {"j": storable(as_json(jobs)), "expected": len(jobs), "channel": self._channel}
        values |= event_params(page(arrivals(jobs)) if self._record_events else None)
        sql = self._sql["insert_whole" if all_or_nothing else "insert"]
        try:
            if lengths:
                added = self._server.transact(lambda db: self._insert_if_room(db, sql, values, jobs, lengths))
            elif names <= self._known_queues:
                added = self._server.run(lambda db: scalar(db, sql, values))
            else:
                added = self._server.transact(lambda db: self._insert_with_queues(db, sql, values, names, now))
                self._known_queues |= names
        except psycopg.errors.UniqueViolation:
            raise DuplicateJob(self._first_taken(jobs)) from None
        if added is None:
            return [True] * len(jobs)
        self._refuse_if_moved()
        return first_of_each(jobs, set(_names.decode(added)))

    def _insert_one(self, job: NewJob) -> bool:
        values = {**structs.asdict(job), "channel": self._channel}
        values["page"] = storable(page(arrivals([job])).text) if self._record_events else None
        is_new = self._server.run(lambda db: self._one.rows(db, values)) == 1
        if not is_new:
            self._refuse_if_moved()
        return is_new

    def _insert_with_queues(self, db: Connection, sql: str, values: dict[str, Any], names: set[str], now: int) -> Any:
        db.execute(self._sql["add_queues"], {"names": storable(as_json(sorted(names))), "now": now})
        return scalar(db, sql, values)

    def _insert_if_room(
        self, db: Connection, sql: str, values: dict[str, Any], jobs: Sequence[NewJob], lengths: dict[str, int]
    ) -> Any:
        names = storable(as_json(sorted({job.queue for job in jobs})))
        db.execute(self._sql["add_queues"], {"names": names, "now": jobs[0].created_at})
        unique_insert.run(
            unique_insert.refuse_if_full(jobs, lengths), PostgresTransaction(db, self._sql, self._channel)
        )
        return scalar(db, sql, values)

    def _insert_again(
        self, jobs: Sequence[NewJob], all_or_nothing: bool, now: int, rules: Callable[[], RulesCache]
    ) -> list[bool]:
        """Insert after a lost answer. The jobs may exist, or appear meanwhile: the server goes on without us."""
        existing = self.stored(jobs)
        left = [job for job in jobs if job.id not in existing]
        try:
            if left:
                self._insert(left, all_or_nothing, now, rules)
        except DuplicateJob:
            if not self.stored(left).issuperset(job.id for job in left):
                raise
        return first_of_each(jobs, self.stored(jobs))

    def stored(self, jobs: Sequence[NewJob]) -> set[str]:
        """The ids of these jobs that are stored exactly as given."""
        values = {"j": storable(as_json(jobs))}
        return set(_names.decode(self._server.repeat(lambda db: scalar(db, self._sql["stored_as_given"], values))))

    def _first_taken(self, jobs: Sequence[NewJob]) -> str:
        ids = as_json([job.id for job in jobs])
        seen = set(_names.decode(self._server.repeat(lambda db: scalar(db, self._sql["existing_ids"], {"ids": ids}))))
        for job in jobs:
            if job.id in seen:
                return job.id
            seen.add(job.id)
        return jobs[0].id

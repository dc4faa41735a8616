"""The archive of a PostgreSQL store: one table in native range partitions, which are dropped whole.

Creating and dropping a partition locks the archive for a moment, and nothing that a claim needs. The wait for that lock
is short: if it fails, the next retention run tries again.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import psycopg
from psycopg import sql

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State
from headrace.core.retention.archive import (
    ArchivePage,
    ArchiveRow,
    Durations,
    Interval,
    Key,
    PartitionChanges,
    PartitionRow,
    ahead,
    key_of,
    page_of,
    partition_of,
    place_of,
    span_of,
)
from headrace.engines.postgres.connections import Connection, ConnectionPool
from headrace.engines.postgres.transaction import storable
from headrace.engines.shared.sql_files import as_json
from headrace.errors import EngineUnavailable

log = logging.getLogger("headrace.archive")

DEFAULT = "default"
_PREFIX = "headrace_archive_"
_BOUNDS = re.compile(r"FROM \('?(-?\d+)'?\) TO \('?(-?\d+)'?\)")
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
_CREATE = "CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)"
# A partition cannot be attached while jobs of its time are in the default partition.
_TAKE_FROM_DEFAULT = """WITH taken AS (DELETE FROM {} WHERE finished_at >= {} AND finished_at < {} RETURNING *)
    INSERT INTO {} SELECT * FROM taken"""
_ATTACH = "ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})"
_FILTERS = ("queue", "task", "tag", "since", "until")
_DROPPED_AT_ONCE = 5000


class _Partition(NamedTuple):
    table: str
    since: int | None
    until: int | None
    bytes: int

    @property
    def name(self) -> str:
        """2026-W46 for headrace_archive_2026_w46."""
        return self.table.removeprefix(_PREFIX).replace("_", "-").upper() if self.since is not None else DEFAULT


class PostgresArchiveHost(Protocol):
    """The engine, as far as it is needed here."""

    server: ConnectionPool
    sql: dict[str, str]

    def prepare(self) -> None: ...


class PostgresArchive:
    """The partitions of one store."""

    def __init__(self, host: PostgresArchiveHost, schema: str) -> None:
        self._host = host
        self._server = host.server
        self._sql = host.sql
        self._schema = schema
        self._known: set[str] = set()
        self._failed: set[str] = set()  # partitions that could not be created so far
        self._unreported: list[str] = []

    # -- writing

    def add(self, rows: Sequence[ArchiveRow], interval: Interval, again: Collection[str] = ()) -> None:
        if not rows:
            return
        self._host.prepare()
        self._create({partition_of(row.finished_at, interval) for row in rows})
        batch = {"r": storable(as_json([_as_list(row) for row in rows]))}
        keys = as_json([key_of(row) for row in rows if row.id in again])

        def store(db: Connection) -> None:
            db.execute(self._sql["archive_add"], batch)
            if keys != "[]":
                db.execute(self._sql["archive_supersede"], {"keys": keys})

        self._server.transact(store)

    def remove(self, keys: Sequence[Key]) -> int:
        self._host.prepare()
        values = {"keys": storable(as_json(keys))}
        return self._server.transact(lambda db: db.execute(self._sql["archive_remove"], values).rowcount)

    def update_partitions(self, now: int, interval: Interval | None, before: int | None) -> PartitionChanges:
        self._host.prepare()
        created = [] if interval is None else [*self._create(ahead(now, interval)), *self._sort_rest(interval)]
        failed, self._unreported = self._unreported, []
        return PartitionChanges(created, failed, [] if before is None else self._drop_past(before))

    def _sort_rest(self, interval: Interval) -> list[str]:
        """Create partitions for the jobs in the default one, which moves them there; the names of new ones."""
        made, since = [], 0
        while (first := self._fetch("archive_first_of_rest", "", {"since": since})[0][0]) is not None:
            name = partition_of(first, interval)
            made += [name] if self._create_one(name) else []
            span = span_of(name)
            assert span is not None
            since = span[1]
        return made

    def _create(self, names: Collection[str]) -> list[str]:
        """Create the missing partitions; the names of new ones."""
        if self._known.issuperset(names):
            return []
        there = {partition.name for partition in self._partitions()}
        self._known = there
        return [name for name in sorted(set(names) - there) if self._create_one(name)]

    def _create_one(self, name: str) -> bool:
        span = span_of(name)
        assert span is not None

        def create(db: Connection) -> None:
            db.execute(_LOCK_TIMEOUT)
            table, bounds = self._table(name), [sql.Literal(bound) for bound in span]
            db.execute(sql.SQL(_CREATE).format(table, self._parent()))
            db.execute(sql.SQL(_TAKE_FROM_DEFAULT).format(self._table(DEFAULT), *bounds, table))
            db.execute(sql.SQL(_ATTACH).format(self._parent(), table, *bounds))

        try:
            self._server.transact(create)
        except (psycopg.Error, EngineUnavailable) as error:
            if name in {partition.name for partition in self._partitions()}:  # another process was faster
                self._known.add(name)
            elif isinstance(error, psycopg.errors.InvalidObjectDefinition):  # one of another interval is in its place
                log.info("partition %s of the archive overlaps an existing one, which is used", name)
                self._known.add(name)
            elif name not in self._failed:
                log.error("partition %s of the archive cannot be created: %s; its jobs go to %s", name, error, DEFAULT)
                self._failed.add(name)
                self._unreported.append(name)
            return False
        self._known.add(name)
        self._failed.discard(name)
        return True

    def _drop_past(self, before: int) -> list[str]:
        past = [part for part in self._partitions() if part.until is not None and part.until <= before]
        dropped = [part.name for part in sorted(past, key=lambda part: part.until or 0) if self._drop_one(part.name)]
        values = {"before": before, "limit": _DROPPED_AT_ONCE}
        while self._server.transact(lambda db: db.execute(self._sql["archive_drop_rest"], values).rowcount):
            pass
        return dropped

    def _drop_one(self, name: str) -> bool:
        try:
            self._server.transact(partial(self._drop, name=name))
        except (psycopg.Error, EngineUnavailable):
            if name in {partition.name for partition in self._partitions()}:
                raise
            return False  # another process was faster
        finally:
            self._known.discard(name)
        return True

    def _drop(self, db: Connection, name: str) -> None:
        # Not CONCURRENTLY, which is impossible beside a default partition. Only the catalog changes.
        db.execute(_LOCK_TIMEOUT)
        table = self._table(name)
        db.execute(sql.SQL("ALTER TABLE {} DETACH PARTITION {}").format(self._parent(), table))
        db.execute(sql.SQL("DROP TABLE {}").format(table))

    # -- reading

    def find(self, which: Filter, limit: int, cursor: str | None = None) -> ArchivePage:
        where, values = self._conditions(which, place_of(cursor))
        # With ids, not by the index of ends, which the planner would choose for a small limit.
        statement = "archive_find_named" if which.ids else "archive_find"
        return page_of(self._rows(statement, where, {**values, "limit": limit + 1}), limit)

    def count(self, which: Filter) -> int:
        return int(self._fetch("archive_count", *self._conditions(which))[0][0])

    def durations(self, which: Filter) -> list[Durations]:
        return [Durations(*row) for row in self._fetch("archive_durations", *self._conditions(which))]

    def partitions(self) -> list[PartitionRow]:
        found = self._partitions()
        counts = {table.rpartition(".")[2].strip('"'): jobs for table, jobs in self._fetch("archive_sizes", "", {})}
        rows = [
            PartitionRow(part.name, part.since, part.until, counts.get(part.table, 0), part.bytes)
            for part in found
            if part.since is not None or counts.get(part.table)
        ]
        return sorted(rows, key=lambda row: (row.since or 0, row.name))

    def _partitions(self) -> list[_Partition]:
        # A partition that is being dropped has no bounds.
        return [_partition(*row) for row in self._fetch("archive_partitions", "", {}) if row[1] is not None]

    def _rows(self, statement: str, where: str, values: dict[str, Any]) -> list[ArchiveRow]:
        return [_as_row(row) for row in self._fetch(statement, where, values)]

    def _fetch(self, statement: str, where: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        self._host.prepare()
        text = self._sql[statement].replace("{where}", where)
        held = {name: storable(value) if isinstance(value, str) else value for name, value in values.items()}
        return self._server.repeat(lambda db: db.execute(text, held or None, prepare=False).fetchall())

    def _conditions(self, which: Filter, place: tuple[int, str] | None = None) -> tuple[str, dict[str, Any]]:
        """A WHERE of fixed fragments and its parameters."""
        values: dict[str, Any] = {name: value for name in _FILTERS if (value := getattr(which, name)) is not None}
        names = list(values)
        for name in ("ids", "states"):
            if given := getattr(which, name):
                values[name] = as_json(given)
                names.append(name)
        if place is not None:
            values |= {"before_at": place[0], "before_id": place[1]}
            names.append("before")
        return " AND ".join(self._sql[f"where_archived_{name}"] for name in names) or "true", values

    # -- names

    def _table(self, name: str) -> sql.Identifier:
        return sql.Identifier(self._schema, f"{_PREFIX}{name.lower().replace('-', '_')}")

    def _parent(self) -> sql.Identifier:
        return sql.Identifier(self._schema, "headrace_archive")


def _partition(table: str, bounds: str, size: int) -> _Partition:
    found = _BOUNDS.search(bounds)
    since, until = (int(found[1]), int(found[2])) if found else (None, None)
    return _Partition(table, since, until, size)


def _as_list(row: ArchiveRow) -> list[Any]:
    values = [getattr(row, name) for name in ArchiveRow.__struct_fields__]
    return [base64.b64encode(value).decode() if isinstance(value, bytes) else value for value in values]


def _as_row(row: Sequence[Any]) -> ArchiveRow:
    values = dict(zip(ArchiveRow.__struct_fields__, row, strict=True))
    return ArchiveRow(**{**values, "state": State(values["state"]), "body": bytes(values["body"])})

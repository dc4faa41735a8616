"""A transaction on the server, for the operations that all SQL engines share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import psycopg

from headrace.core.events.log import EventBatch, arrivals, page
from headrace.core.jobs.records import NewJob
from headrace.engines.postgres.connections import Connection
from headrace.engines.shared.sql_files import as_json

_names = msgspec.json.Decoder(list[str])

# A NUL inside JSON text: `\u0000` after an even number of backslashes.
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def without_nul(text: str) -> str:
    """The text without NUL, which PostgreSQL cannot store. A JSON escape of NUL stays."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def storable(text: str) -> str:
    """The text, or the JSON for PostgreSQL to read, without NUL and escapes of it."""
    text = without_nul(text)
    return _NUL.sub(r"\1\\ufffd", text) if "\\u0000" in text else text


def first_of_each(jobs: Sequence[NewJob], added: set[str]) -> list[bool]:
    """For each job whether it is the one of its id that was added."""
    fresh = []
    for job in jobs:
        fresh.append(job.id in added)
        added.discard(job.id)
    return fresh


def event_params(stored: EventBatch | None) -> dict[str, Any]:
    """The page as parameters of a statement that stores it with its changes."""
    if stored is None:
        return {"page": None, "size": 0, "at": 0}
    return {"page": storable(stored.text), "size": stored.size, "at": stored.at}


class PostgresTransaction:
    """Executes statements by name."""

    __slots__ = ("_channel", "_db", "_sql")

    def __init__(self, db: Connection, sql: Mapping[str, str], channel: str) -> None:
        self._db = db
        self._sql = sql
        self._channel = channel

    def run(self, statement: str, /, where: str = "", **values: Any) -> int:
        return self._execute(statement, where, values).rowcount

    def fetch(self, statement: str, /, where: str = "", **values: Any) -> Any:
        row = self._execute(statement, where, values).fetchone()
        assert row is not None
        return row[0]

    def insert(self, jobs: Sequence[NewJob]) -> list[bool]:
        names = as_json(sorted({job.queue for job in jobs}))
        self.run("add_queues", names=names, now=jobs[0].created_at if jobs else 0)
        event_values = event_params(page(arrivals(jobs)))
        added = self.fetch("insert", j=as_json(jobs), expected=len(jobs), channel=self._channel, **event_values)
        return [True] * len(jobs) if added is None else first_of_each(jobs, set(_names.decode(added)))

    def fragment(self, name: str) -> str:
        return self._sql[name]

    def _execute(self, statement: str, where: str, values: dict[str, Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        sql = self._sql[statement]
        if where:  # an ad-hoc statement: useless in the cache of prepared ones
            sql = sql.replace("{where}", where)
        params = {name: storable(value) if isinstance(value, str) else value for name, value in values.items()}
        if params:  # a statement without parameters may be several statements
            params["channel"] = self._channel
        return self._db.execute(sql, params or None, prepare=False if where else None)

"""A transaction on the SQLite file, for the operations that all SQL engines share."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from headrace.core.jobs.records import NewJob
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sqlite import insert as inserts
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite_file.database import scalar


class SqliteTransaction:
    """Executes statements by name."""

    __slots__ = ("_db",)

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def run(self, statement: str, /, where: str = "", **values: Any) -> int:
        return self._db.execute(SQL[statement].replace("{where}", where), values).rowcount

    def fetch(self, statement: str, /, where: str = "", **values: Any) -> Any:
        return scalar(self._db, SQL[statement].replace("{where}", where), values)

    def insert(self, jobs: Sequence[NewJob]) -> list[bool]:
        names = as_json(sorted({job.queue for job in jobs}))
        self._db.execute(SQL["add_queues"], {"names": names, "now": jobs[0].created_at if jobs else 0})
        return inserts.insert(self._db, jobs, all_or_nothing=False)

    def fragment(self, name: str) -> str:
        return SQL[name]

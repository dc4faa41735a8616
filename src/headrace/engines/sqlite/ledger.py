"""A transaction of the SQLite file, for the steps that all SQL engines share."""

from __future__ import annotations

import sqlite3
from typing import Any

from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite.store import scalar


class SqliteLedger:
    """Executes statements by name."""

    __slots__ = ("_db",)

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def run(self, statement: str, /, where: str = "", **values: Any) -> int:
        return self._db.execute(SQL[statement].replace("{where}", where), values).rowcount

    def ask(self, statement: str, /, where: str = "", **values: Any) -> Any:
        return scalar(self._db, SQL[statement].replace("{where}", where), values)

    def fragment(self, name: str) -> str:
        return SQL[name]

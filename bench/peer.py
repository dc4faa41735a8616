"""huey on SQLite, set up to do what headrace does in the same run: same work, results kept, same durability."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from huey import Huey
from huey.storage import SqliteStorage
from msgspec import Struct


class NormalStorage(SqliteStorage):  # type: ignore[misc]  # huey has no type hints
    """huey offers synchronous=FULL or OFF; this one is NORMAL, which is what headrace's durability "normal" means."""

    def _create_connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = super()._create_connection()
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection


class Peer(Struct, frozen=True):
    """huey with the tasks of `bench.tasks`."""

    huey: Any
    noop: Any
    stamp: Any

    def fill(self, jobs: int) -> None:
        """Store waiting jobs in one transaction; huey's own way, one at a time, is measured elsewhere."""
        storage = self.huey.storage
        rows = [(storage.name, self.huey.serialize_task(self.noop.s(number)), 0) for number in range(jobs)]
        with storage.db(commit=True) as cursor:
            cursor.executemany("INSERT INTO task (queue, data, priority) VALUES (?, ?, ?)", rows)


@contextlib.contextmanager
def open_peer(path: Path | str, durability: str) -> Iterator[Peer]:
    """huey on the file, closed afterwards."""
    storage = NormalStorage if durability == "normal" else SqliteStorage
    huey = Huey("bench", storage_class=storage, filename=str(path), fsync=True if durability == "full" else None)

    def noop(number: int) -> int:
        return number

    def stamp() -> int:
        return time.time_ns()

    try:
        yield Peer(huey, huey.task()(noop), huey.task()(stamp))
    finally:
        huey.storage.close()

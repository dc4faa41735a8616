# mypy: disable-error-code="import-not-found, import-untyped, misc"
"""huey on SQLite, PostgreSQL or Redis, with results kept. The option is the number of its worker threads.

On SQLite it stands beside "normal" or "full", the durability.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from typing import Any

from huey import Huey
from huey.consumer import Consumer
from huey.storage import PostgresStorage, RedisStorage, SqliteStorage

from bench.children.peers import Act, Side


class NormalStorage(SqliteStorage):
    """huey offers synchronous=FULL or OFF; this one is NORMAL, which is what headrace's durability "normal" means."""

    def _create_connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = super()._create_connection()
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection


class HueySide:
    """huey with one task."""

    def __init__(self, huey: Any, threads: int, act: Act) -> None:
        self._huey = huey
        self._threads = threads

        def job(number: int) -> int:
            return act(number)

        self._job = huey.task()(job)

    def prepare(self) -> None:
        """The storage has made its tables."""

    def enqueue(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._job(number)

    def fill(self, numbers: Iterable[int]) -> None:
        self.enqueue(numbers)

    def work(self) -> None:
        Consumer(self._huey, workers=self._threads, periodic=False).start()
        threading.Event().wait()

    def left(self) -> int:
        return int(self._huey.storage.queue_size())

    def kept(self) -> int:
        return int(self._huey.storage.result_store_size())


def open_side(url: str, option: str, act: Act) -> Side:
    """huey on the store."""
    durability, _, threads = option.rpartition(" ")
    if url.startswith("sqlite"):
        storage = NormalStorage if durability == "normal" else SqliteStorage
        file = url.removeprefix("sqlite:///")
        huey = Huey("bench", storage_class=storage, filename=file, fsync=True if durability == "full" else None)
    elif url.startswith("postgres"):
        huey = Huey("bench", storage_class=PostgresStorage, dsn=url)
    else:
        huey = Huey("bench", storage_class=RedisStorage, url=url)
    return HueySide(huey, int(threads), act)

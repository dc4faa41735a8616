"""How often this process asks a store: a transaction of a database, a command of Redis. For one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.engines.postgres.connections import ConnectionPool
from headrace.engines.redis.connections import RedisConnections
from headrace.engines.sql.events import SqlEventStore
from headrace.engines.sqlite_file.database import SqliteDatabase


class Count:
    def __init__(self) -> None:
        self.operations = 0


@contextmanager
def operations() -> Iterator[Count]:
    """Counts them as long as it is open."""
    count = Count()

    def counted(act: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any) -> Any:
            count.operations += 1
            return act(*args)

        return counting

    def counted_once(read: Callable[..., Any]) -> Callable[..., Any]:
        """However often it looks whether other tests have ended their transactions: see `engines`."""

        def counting(*args: Any, **how: Any) -> Any:
            before = count.operations
            found = read(*args, **how)
            count.operations = before + 1
            return found

        return counting

    with pytest.MonkeyPatch.context() as patch:
        for place, name in (
            (RedisConnections, "_exchange"),
            (ConnectionPool, "_borrowed"),
            (SqliteDatabase, "begin"),
            (SqliteDatabase, "_take_reader"),
        ):
            patch.setattr(place, name, counted(getattr(place, name)))
        patch.setattr(SqlEventStore, "read", counted_once(SqlEventStore.read))
        yield count

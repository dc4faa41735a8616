"""How often this process asks a store: a transaction of a database, a command of Redis. For one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.engines.postgres.connections import Server
from headrace.engines.redis.connections import Wire
from headrace.engines.sql.events import SqlEvents
from headrace.engines.sqlite.database import Store


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

        def counting(*args: Any) -> Any:
            before = count.operations
            found = read(*args)
            count.operations = before + 1
            return found

        return counting

    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((Wire, "_converse"), (Server, "_lent"), (Store, "begin"), (Store, "_take_reader")):
            patch.setattr(place, name, counted(getattr(place, name)))
        for name in ("read", "last"):
            patch.setattr(SqlEvents, name, counted_once(getattr(SqlEvents, name)))
        yield count

"""The interface of a SQL database for the shared operations. Each engine has its own statements by these names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from headrace.core.jobs.records import NewJob

T = TypeVar("T")


class Transaction(Protocol):
    """One transaction. `where` takes the place of `{where}` in a statement; it is made of fixed fragments only."""

    def run(self, statement: str, /, where: str = "", **values: Any) -> int:
        """Execute the statement of this name; how many rows it changed."""
        ...

    def fetch(self, statement: str, /, where: str = "", **values: Any) -> Any:
        """The single value of the statement of this name; a list of records is JSON text."""
        ...

    def insert(self, jobs: Sequence[NewJob]) -> list[bool]:
        """Insert the jobs, and their queues if they are new; for each whether its id was free."""
        ...

    def fragment(self, name: str) -> str:
        """The text of a statement that is a part of others."""
        ...


class Database(Protocol):
    """A database with our tables, and its bells."""

    def write(self, act: Callable[[Transaction], T]) -> T:
        """Run it in one transaction, again if the database rolled that back: it must have no other side effects."""
        ...

    def read(self, act: Callable[[Transaction], T]) -> T:
        """Run it on committed data."""
        ...

    def at(self, now: int | None) -> int:
        """The given time, or the store's."""
        ...

    def ring(self, topic: str) -> None: ...

    def forget_rules(self) -> None:
        """Read the rules of queues again before the next insert."""
        ...

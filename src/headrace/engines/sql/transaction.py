"""What the shared steps need of a SQL database. Each engine has statements of its own under these names."""

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

    def ask(self, statement: str, /, where: str = "", **values: Any) -> Any:
        """The one value that the statement of this name answers with; a list of records is JSON text."""
        ...

    def insert(self, jobs: Sequence[NewJob]) -> list[bool]:
        """Store the jobs, and their queues if they are new; for each whether its id was free."""
        ...

    def fragment(self, name: str) -> str:
        """The text of a statement that is only a part of others."""
        ...


class Database(Protocol):
    """A database with our tables, and the bells around it."""

    def write(self, act: Callable[[Transaction], T]) -> T:
        """Do it in one transaction. It may be done anew if the database had to undo it, so it must only write there."""
        ...

    def read(self, act: Callable[[Transaction], T]) -> T:
        """Do it with what is committed."""
        ...

    def at(self, now: int | None) -> int:
        """The given time, or the store's."""
        ...

    def ring(self, topic: str) -> None: ...

    def forget_rules(self) -> None:
        """Ask anew what the rules of queues are, before the next job is stored."""
        ...

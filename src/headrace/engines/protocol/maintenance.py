"""Looking after a store, each contract once, in sentences. See `protocol`.

Whatever changes something does it in short commits: no claim may have to wait for any of it for longer than a moment,
except for what says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from headrace.core.health.findings import Filed, Finding, StoragePart, StoreLoad, Tending, TrimResult
from headrace.engines.protocol.documents import DocumentStore
from headrace.engines.protocol.queries import Queries, ScheduleStore, Transfer
from headrace.engines.protocol.staleness import StalenessStore


class StoreView(Protocol):
    """What is carried from one store to another is read from here: a store, or what it was at one moment."""

    @property
    def queries(self) -> Queries: ...

    @property
    def schedule_store(self) -> ScheduleStore: ...

    @property
    def transfer(self) -> Transfer: ...

    @property
    def staleness_store(self) -> StalenessStore: ...

    @property
    def document_store(self) -> DocumentStore: ...


class Maintenance(Protocol):
    """What keeps a store sound, quick and small. Anybody may do it at any time, and two at once."""

    def inspect(self, now: int | None = None) -> list[Finding]:
        """What looks wrong with the store, its server and what is in it. Nothing is changed."""
        ...

    def repair(self, codes: Collection[str], limit: int, now: int | None = None) -> dict[str, int]:
        """Put right at most about `limit` of each of these findings; how many of each. Nothing else is touched."""
        ...

    def store_load(self, now: int | None = None) -> StoreLoad:
        """How large the store is and how much its writers wait for each other, for who asks every few seconds."""
        ...

    def storage(self, pattern: str, limit: int) -> list[StoragePart]:
        """At most `limit` tables or keys whose names fit the pattern (`*`, `?`, `[...]`). It holds nobody up.

        Tables come by name, keys as the server finds them. No value is read.
        """
        ...

    def checkpoint(self) -> dict[str, int]:
        """Bring the write-ahead log into the file and shorten it: its bytes before and after; nothing for a server."""
        ...

    def optimize(self, *, full: bool = False) -> dict[str, int]:
        """Bring statistics up to date and give free space back: the bytes before and after.

        With `full` all of the space is given back; writers of a file may have to wait until that is through.
        """
        ...

    def maintain(self, kinds: Collection[Tending], now: int | None = None) -> bool:
        """Do one small piece of this upkeep, if any is wanted; whether there is more."""
        ...

    def cap(self, what: Filed, most: int, after: int, limit: int) -> TrimResult:
        """Look at the next `limit` entries or jobs from `after` on, and leave `most` entries to each job.

        The first ten and the newest stay; of those between, the oldest go first, and errors last.
        """
        ...

    def backup(
        self, path: Path, carry: Callable[[StoreView], object], progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Write what the store is at one moment into a new SQLite file, while it is in use.

        A store that is no file lets `carry` do it, from a view of that moment (Redis: of every job at a moment of its
        own, none of those before the beginning missing).
        """
        ...

    def restore(self, path: Path, carry: Callable[[], object]) -> None:
        """Become what the SQLite file at `path` is: a file in one commit, any other store by letting `carry` do it."""
        ...

    def clear(self) -> None:
        """Remove everything that is stored: jobs and what belongs to them, queues, rules, schedules, dead letters."""
        ...

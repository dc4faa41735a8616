"""The shelf of a store, each contract once, in sentences. See `protocol`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.documents import Document


class DocumentStore(Protocol):
    """Small documents with versions: what operators and upkeep keep beside jobs. Keys are in order of their bytes."""

    def get(self, kind: str, keys: Sequence[str]) -> list[Document]:
        """Those of these papers that are there, in the order of their keys."""
        ...

    def browse(
        self, kind: str, first: str = "", last: str | None = None, limit: int = 1000, *, newest_first: bool = False
    ) -> list[Document]:
        """At most `limit` papers with a key from `first` on and before `last`; `newest_first` begins at the end."""
        ...

    def put(self, documents: Sequence[Document]) -> bool:
        """Store them all or none: each must be at its version now, 0 if it is not there, and has one more afterwards.

        One key may not come twice.
        """
        ...

    def remove(self, documents: Sequence[Document]) -> bool:
        """Forget them all or none: each must be at its version now."""
        ...

    def drop(self, kind: str, before: str, limit: int) -> int:
        """Forget at most `limit` papers with a key before this one, the first ones first; how many."""
        ...

    def kinds(self, prefix: str = "") -> list[str]:
        """The kinds of which there is any paper and that begin so, by name."""
        ...

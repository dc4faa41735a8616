"""The versioned documents of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.documents import Document


class DocumentStore(Protocol):
    """Small versioned documents for operators and maintenance. Keys are sorted by their bytes."""

    def get(self, kind: str, keys: Sequence[str]) -> list[Document]:
        """Those of these documents that exist, sorted by key."""
        ...

    def browse(
        self, kind: str, first: str = "", last: str | None = None, limit: int = 1000, *, newest_first: bool = False
    ) -> list[Document]:
        """At most `limit` documents with a key from `first` on and before `last`; `newest_first` begins at the end."""
        ...

    def put(self, documents: Sequence[Document]) -> bool:
        """Store all or none: each must be at its version (0 if it does not exist), which then increases by one.

        No key may occur twice.
        """
        ...

    def remove(self, documents: Sequence[Document]) -> bool:
        """Delete all or none: each must be at its version."""
        ...

    def drop(self, kind: str, before: str, limit: int) -> int:
        """Delete at most `limit` documents with a key before this one, lowest keys first; how many."""
        ...

    def kinds(self, prefix: str = "") -> list[str]:
        """The kinds with this prefix that have any document, sorted by name."""
        ...

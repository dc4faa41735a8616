"""The versioned documents of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.documents import Document


class DocumentStore(Protocol):
    """Small versioned documents for operators and maintenance. Keys are sorted by their bytes."""

    def get(
        self,
        kind: str,
        keys: Sequence[str] | None = None,
        *,
        first: str = "",
        last: str | None = None,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> list[Document]:
        """Those of these documents that exist, or else at most `limit` with a key from `first` on and before `last`.

        They are sorted by key; `newest_first` begins at the end.
        """
        ...

    def put(self, documents: Sequence[Document], delete: Sequence[Document] = ()) -> bool:
        """Store these and delete those, all or none; False if one is not at its version, 0 if it does not exist.

        No key may occur twice, the version of a stored one increases by one, and deletions alone work on a full store.
        """
        ...

    def kinds(self, prefix: str = "") -> list[str]:
        """The kinds with this prefix that have any document, sorted by name."""
        ...

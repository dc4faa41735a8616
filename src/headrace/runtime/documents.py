"""Reads all documents of a kind, and deletes old ones."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.documents import Document
from headrace.engines.protocol.documents import DocumentStore

_PAGE = 1000


def documents_of(store: DocumentStore, kind: str) -> Iterator[Document]:
    """Every document of the kind, by key. One that is stored or deleted meanwhile may be missing or not."""
    first = ""
    while page := store.get(kind, first=first, limit=_PAGE):
        yield from page
        if len(page) < _PAGE:
            return
        first = page[-1].key + "\0"


def drop_documents(store: DocumentStore, kind: str, before: str, limit: int) -> int:
    """Delete at most `limit` documents with a key before this one, lowest keys first; how many.

    None if one of them has changed meanwhile: the next call tries again.
    """
    old = store.get(kind, last=before, limit=limit)
    return len(old) if store.put((), old) else 0

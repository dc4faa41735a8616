"""The versioned documents in a SQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from headrace.core.documents import Document
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.transaction import Database, Transaction

_documents = msgspec.json.Decoder(list[Document])
_names = msgspec.json.Decoder(list[str])


class _Outdated(Exception):
    """Rolls back a transaction in which one document was at another version."""


@timed_part
class SqlDocumentStore:
    """Reads and writes documents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, kind: str, keys: Sequence[str]) -> list[Document]:
        values = {"kind": kind, "keys": as_json(keys)}
        return _documents.decode(self._database.read(lambda tx: tx.fetch("documents", **values))) if keys else []

    def browse(
        self, kind: str, first: str = "", last: str | None = None, limit: int = 1000, *, newest_first: bool = False
    ) -> list[Document]:
        statement = ("browse_back" if newest_first else "browse") + ("" if last is None else "_to")
        values: dict[str, Any] = {"kind": kind, "first": first, "limit": limit}
        if last is not None:
            values["last"] = last
        return _documents.decode(self._database.read(lambda tx: tx.fetch(statement, **values)))

    def put(self, documents: Sequence[Document]) -> bool:
        new = _in_order(document for document in documents if not document.version)
        old = _in_order(document for document in documents if document.version)

        def store(tx: Transaction) -> int:
            stored = tx.run("replace_documents", p=as_json(old)) if old else 0
            return stored + (tx.run("add_documents", p=as_json(new)) if new else 0)

        return self._all_or_none(store, len(documents))

    def remove(self, documents: Sequence[Document]) -> bool:
        gone = as_json(_in_order(documents))
        return self._all_or_none(lambda tx: tx.run("remove_documents", p=gone), len(documents))

    def drop(self, kind: str, before: str, limit: int) -> int:
        return self._database.write(lambda tx: tx.run("drop_documents", kind=kind, before=before, limit=limit))

    def kinds(self, prefix: str = "") -> list[str]:
        found = _names.decode(self._database.read(lambda tx: tx.fetch("kinds_of_documents")))
        return [kind for kind in found if kind.startswith(prefix)]

    def _all_or_none(self, act: Callable[[Transaction], int], expected: int) -> bool:
        def check_all(tx: Transaction) -> None:
            if act(tx) != expected:
                raise _Outdated

        try:
            if expected:
                self._database.write(check_all)
        except _Outdated:
            return False
        return True


def _in_order(documents: Iterable[Document]) -> list[Document]:
    """By key, as all writers do, so that they lock in one order and cannot deadlock."""
    return sorted(documents, key=lambda document: (document.kind, document.key))

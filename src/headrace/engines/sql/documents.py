"""The versioned documents in a SQL database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        if keys is not None:
            found = self._fetch("documents", kind=kind, keys=as_json(keys)) if keys else []
            return found[::-1] if newest_first else found
        statement = ("browse_back" if newest_first else "browse") + ("" if last is None else "_to")
        end = {} if last is None else {"last": last}
        return self._fetch(statement, kind=kind, first=first, limit=limit, **end)

    def _fetch(self, statement: str, **values: Any) -> list[Document]:
        return _documents.decode(self._database.read(lambda tx: tx.fetch(statement, **values)))

    def put(self, documents: Sequence[Document], delete: Sequence[Document] = ()) -> bool:
        new = _in_order(document for document in documents if not document.version)
        old = _in_order(document for document in documents if document.version)

        gone = _in_order(delete)
        parts = (("replace_documents", old), ("add_documents", new), ("remove_documents", gone))

        def store(tx: Transaction) -> None:
            if sum(tx.run(statement, p=as_json(part)) for statement, part in parts if part) != expected:
                raise _Outdated

        expected = len(documents) + len(delete)
        try:
            if expected:
                self._database.write(store)
        except _Outdated:
            return False
        return True

    def kinds(self, prefix: str = "") -> list[str]:
        found = _names.decode(self._database.read(lambda tx: tx.fetch("kinds_of_documents")))
        return [kind for kind in found if kind.startswith(prefix)]


def _in_order(documents: Iterable[Document]) -> list[Document]:
    """By key, as all writers do, so that they lock in one order and cannot deadlock."""
    return sorted(documents, key=lambda document: (document.kind, document.key))

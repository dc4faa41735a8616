"""The lifecycle policies of a store: a document for what the code declares, and one for what an operator sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import msgspec
from msgspec import structs

from headrace.core.damaged_records import read_or
from headrace.core.documents import Document
from headrace.core.retention.lifecycle import Kind, PolicyRow, StoredPolicy
from headrace.engines.protocol.documents import DocumentStore
from headrace.runtime.documents import documents_of

KIND = "lifecycle"
Layer = Literal["declared", "override"]
_policy = msgspec.json.Decoder(StoredPolicy)


def policies(store: DocumentStore) -> list[PolicyRow]:
    """The policies of all tasks and queues that have any, by kind and name."""
    rows: dict[tuple[str, str], PolicyRow] = {}
    for document in documents_of(store, KIND):
        layer, _, rest = document.key.partition(" ")
        kind, _, name = rest.partition(" ")
        if layer in get_args(Layer) and kind in get_args(Kind):
            row = rows.get((kind, name)) or PolicyRow("queue" if kind == "queue" else "task", name)
            rows[kind, name] = structs.replace(row, **{layer: _read(document)})
    return [rows[key] for key in sorted(rows)]


def declare_policies(store: DocumentStore, rows: Sequence[PolicyRow]) -> None:
    """Replace the policies that the code declares for these tasks and queues; an operator's policies stay."""
    declared = {_key("declared", row.kind, row.name): row.declared for row in rows}
    _change(store, list(declared), lambda key, _: declared[key])


def replace_policies(store: DocumentStore, rows: Sequence[PolicyRow]) -> None:
    """Replace both layers of these tasks and queues."""
    declare_policies(store, rows)
    override = {_key("override", row.kind, row.name): row.override for row in rows}
    _change(store, list(override), lambda key, _: override[key])


def override_policy(
    store: DocumentStore, kind: Kind, name: str, change: Callable[[StoredPolicy], StoredPolicy]
) -> None:
    """Change an operator's policy of this task or queue; an empty one is removed."""
    _change(store, [_key("override", kind, name)], lambda _, before: change(before))


def _key(layer: Layer, kind: Kind, name: str) -> str:
    return f"{layer} {kind} {name}"


def _change(store: DocumentStore, keys: list[str], change: Callable[[str, StoredPolicy], StoredPolicy]) -> None:
    while keys and not _changed(store, keys, change):
        pass


def _changed(store: DocumentStore, keys: list[str], change: Callable[[str, StoredPolicy], StoredPolicy]) -> bool:
    known = {document.key: document for document in store.get(KIND, keys)}
    put, delete = list[Document](), list[Document]()
    for key in keys:
        document = known.get(key)
        policy = change(key, StoredPolicy() if document is None else _read(document))
        if policy != StoredPolicy():
            text = msgspec.json.encode(policy).decode()
            put.append(Document(KIND, key, 0 if document is None else document.version, text))
        elif document is not None:
            delete.append(document)
    return store.put(put, delete)


def _read(document: Document) -> StoredPolicy:
    return read_or(_policy.decode, document.value, StoredPolicy())

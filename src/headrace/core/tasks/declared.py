"""What the store knows of a task, for processes without its code: the names of its parameters.

A worker stores it as a document when it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import read_or
from headrace.core.documents import Document

KIND = "tasks"


class DeclaredTask(Struct, frozen=True, omit_defaults=True):
    """A task as its code declares it. `positional` are the names of `Signature.positional`."""

    positional: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()
    index: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(DeclaredTask)


def changed_documents(declared: Mapping[str, DeclaredTask], stored: Iterable[Document]) -> list[Document]:
    """The documents to put, so that the store knows these tasks as they are declared."""
    known = {document.key: document for document in stored}
    texts = {name: msgspec.json.encode(task).decode() for name, task in declared.items()}
    return [
        Document(KIND, name, known[name].version if name in known else 0, text)
        for name, text in texts.items()
        if name not in known or known[name].value != text
    ]


def declared_in(documents: Iterable[Document]) -> dict[str, DeclaredTask]:
    """The tasks of these documents; a damaged one declares nothing."""
    return {document.key: read_or(_decoder.decode, document.value, DeclaredTask()) for document in documents}

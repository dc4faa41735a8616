"""A paper on the store's shelf: a small document with a version, for all that is kept beside jobs."""

from __future__ import annotations

from msgspec import Struct

# Kinds that begin so hold places in this very store, such as how far its events were read: never carried to another.
STAYS = "~"


class Document(Struct, frozen=True, array_like=True):
    """A document by its kind and its key. Version 0 is that of one that is not there yet."""

    kind: str
    key: str
    version: int
    value: str

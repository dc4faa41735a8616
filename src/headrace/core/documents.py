"""A versioned document in the store, for all data beside jobs."""

from __future__ import annotations

from msgspec import Struct

# Kinds with this prefix belong to this store alone, such as how far its events were read: never copied to another.
STAYS = "~"


class Document(Struct, frozen=True, array_like=True):
    """A document by its kind and its key. Version 0 means that it does not exist yet."""

    kind: str
    key: str
    version: int
    value: str

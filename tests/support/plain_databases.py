"""Connections of a program's own to the database in which its jobs are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit


def place(url: str) -> str:
    """The path of an SQLite file, or the address of a database without what only headrace understands."""
    parts = urlsplit(url)
    return parts.path[1:] if parts.scheme == "sqlite" else parts._replace(query="").geturl()


def connect(url: str) -> Any:
    """A connection of the driver."""
    if urlsplit(url).scheme == "sqlite":
        return sqlite3.connect(place(url), timeout=30, isolation_level="IMMEDIATE")
    import psycopg

    return psycopg.connect(place(url))


@contextmanager
def transaction(db: Any) -> Iterator[None]:
    """Commits at the end, or rolls back."""
    with db if isinstance(db, sqlite3.Connection) else db.transaction():
        yield

"""A SQLite file that many threads and processes write one after the other: of the SQLite engine, and of the spool."""

from __future__ import annotations

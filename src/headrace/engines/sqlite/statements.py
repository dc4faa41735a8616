"""The engine's SQL: one named statement for each thing the engine does.

A batch is one JSON parameter (see engines/shared/sql_files.py), so that a statement runs in a single step: it holds
the write lock shortly, and never waits for the interpreter inside.
"""

from __future__ import annotations

import sqlite3

from headrace.engines.shared.sql_files import load_statements
from headrace.engines.sql.records import FILES, RECORDS

# Before 3.43 it has to read a text to tell its size.
_SIZE = "octet_length({})" if sqlite3.sqlite_version_info >= (3, 43) else "length(CAST({} AS BLOB))"
SQL: dict[str, str] = load_statements("headrace.engines.sqlite", RECORDS, files=FILES, size=_SIZE)
# One writer at a time: whatever a write transaction has seen stays as it is until its end.
SQL["lock_overdue"] = SQL["overdue"]
SQL["record_changes"] = SQL["record_moves"]
SQL["lock_dead_letters"] = SQL["dead_letters"]
SQL["cancel"] = SQL["move_cancel"]

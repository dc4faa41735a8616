"""The engine's SQL: one named statement for each operation.

A batch is one JSON parameter (see engines/shared/sql_files.py), so that a statement runs in a single step: it holds
the write lock briefly and never waits for the interpreter.
"""

from __future__ import annotations

import sqlite3

from headrace.engines.shared.sql_files import load_statements
from headrace.engines.sql.records import FILES, RECORDS

# Before 3.43 SQLite has to read a text to get its size.
_SIZE = "octet_length({})" if sqlite3.sqlite_version_info >= (3, 43) else "length(CAST({} AS BLOB))"
SQL: dict[str, str] = load_statements("headrace.engines.sqlite", RECORDS, files=FILES, size=_SIZE)
# One writer at a time: data that a write transaction has read stays unchanged until its end.
SQL["lock_overdue"] = SQL["overdue"]
SQL["record_changes"] = SQL["record_moves"]
SQL["lock_dead_letters"] = SQL["dead_letters"]
SQL["cancel"] = SQL["move_cancel"]

"""The engine's SQL, loaded once."""

from __future__ import annotations

import sqlite3

from headrace.engines.shared.sql_files import load_statements
from headrace.engines.sql.records import FILES, RECORDS

# Before 3.43 it has to read a text to tell its size.
_SIZE = "octet_length({})" if sqlite3.sqlite_version_info >= (3, 43) else "length(CAST({} AS BLOB))"
SQL: dict[str, str] = load_statements("headrace.engines.sqlite", RECORDS, files=FILES, size=_SIZE)
# One writer at a time: whatever a write transaction has seen stays as it is until its end.
SQL["lock_overdue"] = SQL["overdue"]
SQL["file_changes"] = SQL["file_moves"]
SQL["lock_letters"] = SQL["letters"]
SQL["cancel"] = SQL["move_cancel"]

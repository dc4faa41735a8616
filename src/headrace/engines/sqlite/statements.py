"""The engine's SQL, loaded once."""

from __future__ import annotations

from headrace.engines.relational.records import FILES, RECORDS
from headrace.engines.sql import load_statements

SQL: dict[str, str] = load_statements("headrace.engines.sqlite", RECORDS, files=FILES)
# One writer at a time: whatever a write transaction has seen stays as it is until its end.
SQL["lock_overdue"] = SQL["overdue"]
SQL["file_changes"] = SQL["file_moves"]
SQL["lock_letters"] = SQL["letters"]
SQL["cancel"] = SQL["move_cancel"]

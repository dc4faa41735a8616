"""The engine's SQL: one named statement for each operation.

A batch is one JSON parameter (see engines/shared/sql_files.py), so that a statement runs in a single step: it holds
the write lock briefly and never waits for the interpreter.
"""

from __future__ import annotations

import sqlite3

from headrace.engines.shared.sql_files import Dialect, load_statements
from headrace.engines.sql.records import COMMON, MACROS, RECORDS

# Before 3.43 SQLite has to read a text to get its size.
_SIZE = "octet_length({})" if sqlite3.sqlite_version_info >= (3, 43) else "length(CAST({} AS BLOB))"
# The files of statements that are this engine's own, or that differ from the common ones.
FILES = (
    *("store", "insert", "unique", "queue_rules", "claim", "limits", "settle", "leases", "steps", "dependencies"),
    *("moves", "queries", "search", "workers", "documents", "dead_letters", "events", "staleness", "retention"),
    *("maintenance", "transfer"),
)
_MACROS = {
    **MACROS,
    "rows": "json_group_array(json_array({0}))",
    "list": "json_group_array({0})",
    "in_texts": "IN (SELECT value FROM json_each({0}))",
    "in_numbers": "IN (SELECT value FROM json_each({0}))",
    "named": "id IN (SELECT value FROM json_each({0}))",
    "has_id": "id = {0}",
    "in": "IN ({0})",
    "each": "json_each(:{0}) AS {0}",
    "lookup": "JOIN {0} AS {1} ON {2}",
    "flag": "json(iif({0}, 'true', 'false'))",
    "lock": "",
    "count": "{0}",
}


def _extract_field(alias: str, position: int, _kind: str) -> str:
    return f"json_extract({alias}.value, '$[{position}]')"


DIALECT = Dialect(_MACROS, _extract_field, _SIZE)
SQL: dict[str, str] = {
    **load_statements("headrace.engines.sql", RECORDS, DIALECT, COMMON),
    **load_statements("headrace.engines.sqlite", RECORDS, DIALECT, FILES),
}
# One writer at a time: data that a write transaction has read stays unchanged until its end.
SQL["lock_overdue"] = SQL["overdue"]

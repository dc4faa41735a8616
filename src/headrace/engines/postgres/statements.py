"""The engine's SQL: one named statement for each operation, qualified with the schema of its tables.

A batch is one JSON parameter (see engines/shared/sql_files.py): arrays of the driver cost the client fifteen times as
much for each job. Statements that could conflict with other writers lock the rows first (`lock_…`, FOR UPDATE): from
then on no other transaction moves these jobs.

A prepared statement keeps its plan, which may be from before the first job, so none may depend on the estimated size of
a table or a batch. Where a batch is joined it must come first, and its jobs be looked up one by one. In LATERAL,
`OFFSET 0` forces that; elsewhere `= ANY (ARRAY[…])`, a condition for which no hash join, no merge join and no full
index order works, and `jsonb_typeof`, which is always true and makes the planner expect one element instead of a
hundred. Jobs by number are found by `= ANY (ARRAY(…))`, which is not a join at all. On our own connections
`PostgresUrl` disables the remaining alternatives.
"""

from __future__ import annotations

import functools
import re

from headrace.engines.shared.sql_files import Dialect, load_statements
from headrace.engines.sql.records import COMMON, MACROS, RECORDS

# The files of statements that are this engine's own, or that differ from the common ones.
FILES = (
    *("store", "insert", "unique", "queue_rules", "claim", "limits", "settle", "leases", "steps", "dependencies"),
    *("moves", "queries", "search", "workers", "documents", "dead_letters", "events", "staleness", "retention"),
    *("maintenance", "transfer", "archive"),
)
_TABLE = re.compile(
    r"\bheadrace_(?:jobs|ids|flows|dependencies|tags|history|logs|steps|dead_letters|queues|tasks|rate_buckets"
    r"|schedules|occurrences|workers|documents|store|events|schema|archive|archive_default"
    r"|append_history_events|append_dead_letter_event|forget_ids)\b"
)
_MACROS = {
    **MACROS,
    "rows": "coalesce(json_agg(json_build_array({0})), '[]')::text",
    "list": "coalesce(json_agg({0}), '[]')::text",
    "in_texts": "= ANY (ARRAY(SELECT jsonb_array_elements_text({0}::jsonb)))",
    "in_numbers": "= ANY (ARRAY(SELECT jsonb_array_elements({0}::jsonb)::bigint))",
    "named": "seq = ANY (ARRAY(SELECT seq FROM headrace_ids"
    " WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text({0}::jsonb)))))",
    "has_id": "seq = ANY (ARRAY[(SELECT seq FROM headrace_ids WHERE id = {0})])",
    "in": "= ANY (ARRAY({0}))",
    "each": "jsonb_array_elements(:{0}::jsonb) WITH ORDINALITY AS {0}(value, key)",
    "lookup": "CROSS JOIN LATERAL (SELECT * FROM {0} AS {1} WHERE {2} OFFSET 0) AS {1}",
    "flag": "{0}",
    "lock": "{0}",
    "count": "WITH written AS ({0} RETURNING 1) SELECT count(*) FROM written",
}
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)\b")


def _extract_field(alias: str, position: int, kind: str) -> str:
    text = f"({alias}.value ->> {position})"
    if "bool" in kind:
        return f"{text}::boolean"
    return f"{text}::bigint" if "int" in kind else text


DIALECT = Dialect(_MACROS, _extract_field, "octet_length({})")


@functools.cache
def _loaded() -> dict[str, str]:
    return {
        **load_statements("headrace.engines.sql", RECORDS, DIALECT, (*COMMON, "archive")),
        **load_statements("headrace.engines.postgres", RECORDS, DIALECT, FILES),
    }


def qualified(sql: str, schema: str) -> str:
    """The text with every table of ours qualified by its schema: no search_path decides where we write."""
    return _TABLE.sub(rf'"{schema}".\g<0>', sql)


@functools.cache
def statements_in(schema: str) -> dict[str, str]:
    """Every statement for tables in this schema, with the driver's parameter syntax."""
    texts = {name: _PARAMETER.sub(r"%(\1)s", qualified(sql, schema)) for name, sql in _loaded().items()}
    # All or nothing: here a taken id is an error of the statement.
    texts["insert_whole"] = texts["insert"].replace("ON CONFLICT (id) DO NOTHING", "")
    return texts

"""The table of ids where it disagrees with the table of jobs, as another tool or a damaged table may leave it.

An id without its job refuses new jobs of this id. A job without its id can be stored again, and no query by its id
finds it.
"""

from __future__ import annotations

import msgspec

from headrace.core.health.findings import Finding, orphan_finding, unindexed_finding
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.transaction import Database, Transaction

_names = msgspec.json.Decoder(list[str])
_numbers = msgspec.json.Decoder(list[int])
_MAX_COUNTED = 10_000


def findings(database: Database) -> list[Finding]:
    def count(tx: Transaction) -> tuple[int, int]:
        if not tx.fetch("ids_differ"):
            return 0, 0
        return (
            len(_names.decode(tx.fetch("orphan_ids", limit=_MAX_COUNTED))),
            len(_numbers.decode(tx.fetch("unindexed_jobs", limit=_MAX_COUNTED))),
        )

    orphans, unindexed = database.read(count)
    return [*orphan_finding("index", orphans), *unindexed_finding(unindexed)]


def drop_orphans(database: Database, limit: int) -> int:
    """Delete ids that lead to no job."""
    names = _names.decode(database.read(lambda tx: tx.fetch("orphan_ids", limit=limit)))
    return database.write(lambda tx: tx.run("drop_orphan_ids", ids=as_json(names))) if names else 0


def index_jobs(database: Database, limit: int) -> int:
    """Give jobs their ids back; one whose id another job has gets a new one, with its number."""
    found = _numbers.decode(database.read(lambda tx: tx.fetch("unindexed_jobs", limit=limit)))
    seqs = as_json(found)

    def index(tx: Transaction) -> int:
        indexed = tx.run("index_jobs", seqs=seqs)
        if indexed < len(found) and tx.run("rename_twins", seqs=seqs):
            indexed += tx.run("index_jobs", seqs=seqs)
        return indexed

    return database.write(index) if found else 0

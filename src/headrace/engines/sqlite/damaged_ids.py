"""Ids that are not valid text: they are shown with replacement characters, and no query by that text finds them.

The repair changes such an id to the text it is shown as. No other database stores invalid text.
"""

from __future__ import annotations

import msgspec

from headrace.core.health.findings import Finding, id_findings
from headrace.engines.sql.transaction import Database, Transaction

_hexes = msgspec.json.Decoder(list[str])
_KINDS = ("jobs", "dead_letters", "schedules")


def findings(database: Database) -> list[Finding]:
    def look(tx: Transaction) -> list[str]:
        return [_shown(stored) for kind in _KINDS for stored in _ids(tx, kind)]

    return id_findings(database.read(look))


def repair(database: Database, limit: int) -> int:
    def rename(tx: Transaction) -> int:
        found = [(kind, old) for kind in _KINDS for old in _ids(tx, kind)][:limit]
        return sum(tx.run(f"rename_{kind}", old=old, new=_shown(old)) for kind, old in found)

    return database.write(rename)


def _ids(tx: Transaction, kind: str) -> list[bytes]:
    stored = map(bytes.fromhex, _hexes.decode(tx.fetch(f"unusual_ids_of_{kind}")))
    return [each for each in stored if _shown(each).encode() != each]


def _shown(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")

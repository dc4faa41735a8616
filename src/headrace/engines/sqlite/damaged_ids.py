"""Ids that are no text: a damaged one is shown with marks in place of some letters, and nobody can ask for it by that.

The repair makes an id what it is shown as. No other database holds a text that is none.
"""

from __future__ import annotations

import msgspec

from headrace.core.health.findings import Finding, judge_ids
from headrace.engines.sql.transaction import Database, Transaction

_hexes = msgspec.json.Decoder(list[str])
_KINDS = ("jobs", "letters", "schedules")


def findings(office: Database) -> list[Finding]:
    def look(ledger: Transaction) -> list[str]:
        return [_shown(stored) for kind in _KINDS for stored in _ids(ledger, kind)]

    return judge_ids(office.read(look))


def repair(office: Database, limit: int) -> int:
    def rename(ledger: Transaction) -> int:
        found = [(kind, old) for kind in _KINDS for old in _ids(ledger, kind)][:limit]
        return sum(ledger.run(f"rename_{kind}", old=old, new=_shown(old)) for kind, old in found)

    return office.write(rename)


def _ids(ledger: Transaction, kind: str) -> list[bytes]:
    stored = map(bytes.fromhex, _hexes.decode(ledger.ask(f"unusual_ids_of_{kind}")))
    return [each for each in stored if _shown(each).encode() != each]


def _shown(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")

"""How long jobs may stay, in a SQL database: the terms of tasks and queues."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.lifecycle import Kind, Terms, TermsRow
from headrace.engines.relational.ledger import Ledger, Office
from headrace.engines.sql import as_json

_terms = msgspec.json.Decoder(list[TermsRow])


class SqlUpkeep:
    """Reads and writes terms."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def terms(self) -> list[TermsRow]:
        return _terms.decode(self._office.read(lambda ledger: ledger.ask("terms")))

    def declare_terms(self, rows: Sequence[TermsRow]) -> None:
        def declare(ledger: Ledger) -> None:
            ledger.run("declare_terms", t=as_json(rows))
            ledger.run("drop_empty_terms")

        if rows:
            self._office.write(declare)

    def order_terms(self, kind: Kind, name: str, terms: Terms | None) -> None:
        def order(ledger: Ledger) -> None:
            ledger.run("order_terms", t=as_json([TermsRow(kind, name, ordered=terms or Terms())]))
            ledger.run("drop_empty_terms")

        self._office.write(order)

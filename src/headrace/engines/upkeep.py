"""What a store keeps of how long jobs may stay, each contract once, in sentences. See `protocol`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.lifecycle import Kind, Terms, TermsRow


class Upkeep(Protocol):
    """The terms of tasks and queues. No claim ever reads them."""

    def terms(self) -> list[TermsRow]:
        """Every task and queue of which anything is said, by kind and name."""
        ...

    def declare_terms(self, rows: Sequence[TermsRow]) -> None:
        """Store what code declares of these in place of what was declared before; what is ordered stays.

        Of the rows only what is declared counts. Nothing declared is stored as nothing.
        """
        ...

    def order_terms(self, kind: Kind, name: str, terms: Terms | None) -> None:
        """Store what an operator orders for this in place of what was ordered before; None for nothing."""
        ...

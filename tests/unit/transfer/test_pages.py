"""Jobs are read page by page, each once, also where an index is damaged."""

from __future__ import annotations

from typing import Any

from headrace.app.transfer.pages import pages


class Row:
    def __init__(self, seq: int) -> None:
        self.job = self
        self.seq, self.payload = seq, ""
        self.result = self.metadata = self.progress = None
        self.history = self.logs = self.steps = ()


class Shelf:
    """Has these rows, each at a place that may be another than its own."""

    def __init__(self, *places: tuple[int, int]) -> None:
        self._places = places
        self.reads = 0

    def export_jobs(self, after: int, limit: int) -> list[Any]:
        self.reads += 1
        assert self.reads < 100, "it never ends"
        return [Row(seq) for place, seq in self._places if place > after][:limit]


def test_pages_go_through_all_rows_in_order() -> None:
    document_store: Any = Shelf(*((n, n) for n in range(1, 60)))
    assert [row.job.seq for page in pages(document_store) for row in page] == list(range(1, 60))


def test_an_entry_that_leads_to_an_earlier_row_does_not_lead_back() -> None:
    for bad in (16, 17, 30, 59):
        document_store: Any = Shelf(*((n, 2 if n == bad else n) for n in range(1, 60)))
        found = [row.job.seq for page in pages(document_store) for row in page]
        assert set(found) == set(range(1, 60)) - {bad}

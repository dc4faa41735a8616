"""The record of the last retention run."""

from __future__ import annotations

import pytest

from headrace import Headrace
from headrace.core.documents import Document
from headrace.core.retention.retention import RetentionRun
from headrace.runtime.retention.last_run import last_run, store_last_run
from tests.support.builders import NOW


@pytest.mark.every_engine
def test_what_a_run_did_is_recorded_over_what_was_before(app: Headrace) -> None:
    store = app.engine.document_store
    assert last_run(store) is None
    store_last_run(store, RetentionRun(at=NOW, duration=5, archived=1))
    latest = RetentionRun(
        at=NOW + 1, duration=7, archived=2, deleted=3, dead_letters=4, partition="2026-W46", dropped=["2026-W20"]
    )
    store_last_run(store, latest)
    assert last_run(store) == latest


def test_a_damaged_record_counts_as_none_and_is_replaced(app: Headrace) -> None:
    store = app.engine.document_store
    store.put([Document("~retention", "last", 0, "{")])
    assert last_run(store) is None
    store_last_run(store, RetentionRun(at=NOW, duration=5))
    assert last_run(store) == RetentionRun(at=NOW, duration=5)

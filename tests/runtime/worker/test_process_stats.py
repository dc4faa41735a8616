"""The reported CPU share and memory of a process, on every engine."""

from __future__ import annotations

import os

from headrace import Headrace
from headrace.core.health.process_stats import KIND, ProcessStats, document_of
from headrace.runtime.maintenance.process_stats import ProcessStatsReport


def test_a_worker_reports_its_process_stats(app: Headrace) -> None:
    with app.worker(concurrency=1):
        ProcessStatsReport(app.engine).do()
        (worker,) = app.workers()
    assert worker.pid == os.getpid()
    assert worker.memory is not None
    assert 1_000_000 < worker.memory < 10_000_000_000
    assert worker.cpu is not None
    assert worker.cpu >= 0


def test_two_workers_of_a_process_share_a_document(app: Headrace) -> None:
    one, other = ProcessStatsReport(app.engine), ProcessStatsReport(app.engine)
    for report in (one, other, one, other, one):
        report.do()
    assert len(app.engine.document_store.get(KIND)) == 1


def test_old_process_stats_are_hidden_and_then_removed(app: Headrace) -> None:
    now = app.clock.now()
    assert app.engine.document_store.put([document_of("gone:1", 0, ProcessStats(now - 3_700_000, 0.5, 1))])
    ProcessStatsReport(app.engine).do()
    assert "gone:1" not in [document.key for document in app.engine.document_store.get(KIND)]

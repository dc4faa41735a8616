"""SQLite: what a claim costs in a store with many queues."""

from __future__ import annotations

from pathlib import Path

from headrace.engines.sqlite.engine import SqliteEngine
from tests.support.builders import NOW, claim, new_job


def test_a_claim_asks_no_queue_that_has_no_pending_job(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "q.db", durability="off")
    engine.insert([new_job(f"old-{number}", queue=f"queue-{number}") for number in range(50)], now=NOW)
    assert len(claim(engine)) == 50
    engine.insert([new_job("new", queue="queue-7")], now=NOW)
    statements: list[str] = []
    with engine.store.writing() as db:
        db.set_trace_callback(statements.append)
    assert [job.id for job in claim(engine)] == ["new"]
    assert len([text for text in statements if "lane = ''" in text]) == 1
    engine.close()

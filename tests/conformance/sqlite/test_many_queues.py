"""SQLite: what a claim costs in a store with many queues, or many keys."""

from __future__ import annotations

from pathlib import Path

from headrace.core.jobs.queue_rules import QueueRules
from headrace.engines.sqlite.engine import SqliteEngine
from tests.support.builders import NOW, claim, new_job, per_second, tenant


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


def test_a_claim_reads_the_rates_of_all_keys_at_once(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "q.db", durability="off")
    engine.rule_store.set_rules("default", QueueRules(key_rate=per_second(1)))
    for turn in range(2):
        engine.insert([tenant(f"{turn}-{key}", str(key)) for key in range(50)], now=NOW)
    statements: list[str] = []
    with engine.store.writing() as db:
        db.set_trace_callback(statements.append)
    assert {job.id for job in claim(engine)} == {f"0-{key}" for key in range(50)}
    assert len([text for text in statements if "FROM headrace_rate_buckets" in text and "DELETE" not in text]) == 1
    assert claim(engine) == []
    engine.close()

"""SQLite: which operation rings for whom. Its backstop would wake a waiter after a second anyway, and hide a gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.core.jobs.records import JobUpdate
from headrace.core.jobs.states import Trigger
from headrace.engines.protocol.engine import Engine
from headrace.engines.sqlite.engine import SqliteEngine
from tests.support.builders import (
    EVERYTHING,
    HOUR,
    LATER,
    LEASE,
    NOTHING,
    NOW,
    claim,
    claim_one,
    fail,
    give_up,
    new_job,
    release,
    retry,
    settle,
    snooze,
    succeed,
    worker_row,
)


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics rung so far."""
    topics: list[str] = []
    monkeypatch.setattr(SqliteEngine, "ring", lambda _, topic: topics.append(topic))
    return topics


@pytest.fixture
def engine(tmp_path: Path, rung: list[str]) -> Iterator[Engine]:
    made = SqliteEngine(tmp_path / "q.db", durability="off")
    made.insert([new_job("pending"), new_job("scheduled", run_at=LATER, expires_at=LATER + HOUR)], now=NOW)
    made.renew(worker_row(), [], LEASE, now=NOW)
    rung.clear()
    yield made
    made.close()


Act = Callable[[Engine], object]
RINGS: dict[str, tuple[Act, set[str]]] = {
    "insert": (lambda engine: engine.insert([new_job("new")], now=NOW), {"work"}),
    "claim": (claim, set()),
    "a lapse inside a claim": (lambda engine: engine.exchange([], NOTHING, now=LATER + HOUR), {"done"}),
    "succeed": (lambda engine: settle(engine, succeed(claim_one(engine))), {"done"}),
    "fail": (lambda engine: settle(engine, fail(claim_one(engine))), {"done"}),
    "give up": (lambda engine: settle(engine, give_up(claim_one(engine))), {"done"}),
    "release": (lambda engine: settle(engine, release(claim_one(engine))), {"work"}),
    "cancel": (
        lambda engine: engine.queries.move(EVERYTHING, Trigger.CANCEL, 9, now=NOW),
        {"done", "commands", "work"},
    ),
    "promote_now": (lambda engine: engine.queries.move(EVERYTHING, Trigger.PROMOTE_NOW, 9, now=NOW), {"work"}),
    "delete": (lambda engine: engine.queries.move(EVERYTHING, Trigger.DELETE, 9, now=NOW), {"done"}),
    "update": (lambda engine: engine.queries.update("scheduled", JobUpdate(run_at=NOW), now=NOW), {"work"}),
    "pause": (lambda engine: engine.queries.pause_queue("default", False), {"work"}),
    "command": (lambda engine: engine.queries.command_worker("w1", "stop"), {"commands"}),
    "renew": (lambda engine: engine.renew(worker_row(), [], LEASE, now=NOW), set()),
    "a reap that finds nothing": (lambda engine: engine.reap(9, now=NOW), set()),
    "a move that finds nothing": (lambda engine: engine.queries.move(EVERYTHING, Trigger.REVIVE, 9, now=NOW), set()),
}


@pytest.mark.parametrize(("act", "topics"), RINGS.values(), ids=RINGS)
def test_an_operation_rings_for_those_it_concerns(engine: Engine, rung: list[str], act: Act, topics: set[str]) -> None:
    act(engine)
    assert set(rung) == topics


@pytest.mark.parametrize("put_off", [retry, snooze])
def test_a_job_put_off_rings_for_nobody_who_could_not_run_it(
    engine: Engine, rung: list[str], put_off: Callable[..., object]
) -> None:
    settle(engine, put_off(claim_one(engine), LATER))  # type: ignore[arg-type]
    assert "done" not in rung


@pytest.mark.parametrize(("attempts", "topics"), [(2, {"work"}), (1, {"done"})])
def test_a_reap_rings_for_those_who_wait_for_the_job(
    engine: Engine, rung: list[str], attempts: int, topics: set[str]
) -> None:
    engine.insert([new_job("lost", priority=9, max_attempts=attempts)], now=NOW)
    claim_one(engine)
    rung.clear()
    engine.reap(9, now=NOW + LEASE)
    assert set(rung) == topics

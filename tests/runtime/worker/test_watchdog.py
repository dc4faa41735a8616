"""A task that blocks the event loop is named, with the place where it does, and holds up neither leases nor threads."""

from __future__ import annotations

import logging
import threading

import pytest

from headrace import Headrace
from tests.support.waiting import PATIENCE, eventually


def test_a_coroutine_that_blocks_the_loop_is_named_with_its_place(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    free, inside = threading.Event(), threading.Event()

    @app.task
    async def rude() -> str:
        inside.set()
        assert free.wait(PATIENCE)
        return "done"

    def warnings() -> list[str]:
        return [r.getMessage() for r in caplog.records if "blocked the event loop" in r.getMessage()]

    with caplog.at_level(logging.WARNING, "headrace.worker"), app.worker(heartbeat=0.2, lease=30):
        job = rude.enqueue()
        assert inside.wait(PATIENCE)
        eventually(warnings, "the warning")
        free.set()
        assert job.result(PATIENCE) == "done"
    assert f"job {job.id} (rude) has blocked the event loop" in warnings()[0]
    assert "in rude" in warnings()[0]
    assert len(warnings()) == 1


def test_a_blocked_loop_keeps_its_leases_and_threads_go_on(app: Headrace) -> None:
    free, inside = threading.Event(), threading.Event()

    @app.task(retry=0)
    async def rude() -> str:
        inside.set()
        assert free.wait(PATIENCE)
        return "done"

    @app.task
    def polite() -> str:
        return "ran"

    with app.worker(heartbeat=0.1, lease=30, concurrency=2):
        job = rude.enqueue()
        assert inside.wait(PATIENCE)
        (row,) = app.engine.queries.get([job.id])
        first = row.lease_until or 0
        eventually(lambda: (app.engine.queries.get([job.id])[0].lease_until or 0) > first + 1000, "later leases")
        assert polite.enqueue().result(PATIENCE) == "ran"
        free.set()
        assert job.result(PATIENCE) == "done"
    assert job.attempt == 1

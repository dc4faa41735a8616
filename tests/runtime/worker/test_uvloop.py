"""Where uvloop is installed, coroutines run on it; all other tests run on asyncio's own loop."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from headrace import Headrace, JobFailed
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.engines("sqlite"), pytest.mark.skipif(sys.platform == "win32", reason="no uvloop")]


@pytest.fixture(autouse=True)
def _with_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "uvloop")


def test_results_timeouts_and_stray_exits_are_as_on_the_loop_of_asyncio(app: Headrace) -> None:
    @app.task
    async def name_of_loop() -> str:
        await asyncio.sleep(0.001)
        return type(asyncio.get_running_loop()).__module__

    @app.task(retry=0, timeout=0.05)
    async def endless() -> None:
        await asyncio.sleep(3600)

    @app.task(retry=0)
    async def bad() -> None:
        async def leave() -> None:
            sys.exit("goodbye")

        await asyncio.create_task(leave())

    with app.worker(concurrency=4):
        with pytest.raises(JobFailed, match="SystemExit"):
            bad.enqueue().result(PATIENCE)
        with pytest.raises(JobFailed, match="Timeout"):
            endless.enqueue().result(PATIENCE)
        assert name_of_loop.enqueue().result(PATIENCE) == "uvloop"


def test_a_stop_cancels_coroutines_and_releases_their_jobs(app: Headrace) -> None:
    started, ended = threading.Event(), threading.Event()

    @app.task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    worker = app.worker(shutdown_timeout=0.0)
    with worker:
        job = endless.enqueue()
        assert started.wait(PATIENCE)
    assert ended.wait(PATIENCE)
    assert job.refresh().state == "pending"

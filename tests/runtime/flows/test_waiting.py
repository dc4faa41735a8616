"""A wait for a flow ends with the flow, whenever its jobs end between two reads of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace import FlowRun, Headrace, group
from headrace.app.services.services import Services
from headrace.testing import drain
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.every_engine


def _wait(run: FlowRun) -> str:
    return run.wait(PATIENCE)


def _await(run: FlowRun) -> str:
    return asyncio.run(run.await_(PATIENCE))


@pytest.mark.parametrize("wait", [_wait, _await])
@pytest.mark.parametrize("reading", ["flow_summary", "newest"])
def test_a_flow_that_ends_right_after_a_reading_is_reported_as_it_ended(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, reading: str, wait: Callable[[FlowRun], str]
) -> None:
    @app.task(retry=0)
    def fail() -> None:
        raise OSError("away")

    run = group(*[fail.bind() for _ in range(5)]).enqueue()
    read = getattr(Services, reading)

    def read_and_end(services: Services, which: Any) -> Any:
        found = read(services, which)
        drain(app)
        return found

    monkeypatch.setattr(Services, reading, read_and_end)
    if reading == "flow_summary":
        monkeypatch.setattr(Services, "wait", lambda *_: drain(app))
        monkeypatch.setattr(Services, "await_finish", _drained(app))
    assert wait(run) == "failed"
    assert (run.counts, run.progress) == ({"failed": 5}, (5, 5))


def _drained(app: Headrace) -> Callable[..., Any]:
    async def await_finish(*_: Any) -> bool:
        return bool(await asyncio.to_thread(drain, app))

    return await_finish

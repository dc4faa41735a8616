"""With memory tracing, a worker reports which code holds more and more memory."""

from __future__ import annotations

import logging
import os
import socket
import tracemalloc
from collections.abc import Iterator

import pytest

from headrace import ConfigError, Headrace
from headrace.core.health.process_stats import MemoryTrace
from headrace.core.settings.settings import Settings
from headrace.runtime.maintenance.memory_tracing import TracingMemory
from headrace.runtime.maintenance.process_stats import ProcessStatsReport
from headrace.runtime.maintenance.tasks import maintenance_tasks_of
from tests.support.builders import LEASE, worker_row

pytestmark = pytest.mark.engines("sqlite")


@pytest.fixture
def tracing() -> Iterator[None]:
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("tracing")
def test_the_code_that_grew_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    maintenance_task, leak = TracingMemory(60.0), list[bytes]()
    with caplog.at_level(logging.INFO, "headrace.memory"):
        assert maintenance_task.do() == 60.0
        assert caplog.messages == []
        leak += [bytes(1000) for _ in range(1000)]
        assert maintenance_task.do() == 60.0
    [trace_of] = caplog.records
    [*grown] = trace_of.__dict__["growth"]
    assert any(line.startswith(__file__) and "+1,0" in line for line in grown), grown
    assert trace_of.__dict__["allocated"] > 1_000_000
    assert leak


def test_it_is_off_by_default(app: Headrace) -> None:
    def traces(settings: Settings) -> bool:
        return any(
            isinstance(maintenance_task, TracingMemory)
            for maintenance_task in maintenance_tasks_of(app.engine, settings)
        )

    assert not traces(app.settings)
    with Headrace("memory://", trace_memory=300) as other:
        assert traces(other.settings)
    with pytest.raises(ConfigError, match="trace_memory"):
        Headrace("memory://", trace_memory=-1)


@pytest.mark.usefixtures("tracing")
def test_the_memory_trace_is_shown_with_the_worker(app: Headrace) -> None:
    own = worker_row("w1", seen_at=app.clock.now(), host=socket.gethostname(), pid=os.getpid())
    app.engine.renew(own, [], LEASE)
    maintenance_tasks = maintenance_tasks_of(app.engine, Settings(trace_memory=300))
    tracing = next(
        maintenance_task for maintenance_task in maintenance_tasks if isinstance(maintenance_task, TracingMemory)
    )
    vitals = next(
        maintenance_task for maintenance_task in maintenance_tasks if isinstance(maintenance_task, ProcessStatsReport)
    )

    def trace_of() -> MemoryTrace | None:
        tracing.do()
        vitals.do()
        return app.workers()[0].memory_trace

    assert trace_of() is None  # there is nothing to compare with yet
    leak = [bytes(1000) for _ in range(1000)]
    trace = trace_of()
    assert trace is not None
    assert len(leak) * 1000 < trace.allocated <= trace.peak
    assert any(line.startswith(__file__) for line in trace.growth)

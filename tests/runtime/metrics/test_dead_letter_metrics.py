"""The ends of dead letters and of stale jobs are counted, each by its kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.runtime.retention.staleness import StaleCheck
from headrace.testing import VirtualClock, drain

DAY = 86_400


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(url, clock=clock, on_stale="dead") as app:

        @app.task(name="bad", retry=0)
        def bad() -> None:
            raise OSError("away")

        yield app


def test_ends_of_dead_letters_are_counted_by_their_kind(app: Headrace, clock: VirtualClock) -> None:
    jobs = [app.enqueue("bad") for _ in range(4)]
    drain(app)
    app.dead.requeue(jobs[0].id)
    app.dead.resolve(jobs[1].id, "permanently_failed")
    app.dead.requeue(jobs[2].id, max_requeues=0)
    app.dead.resolve(jobs[3].id, "cancelled")
    read = {name: app.metrics.value(f"dead_{name}") for name in ("resolved", "requeued", "permanent", "expired")}
    assert read == {"resolved": 4, "requeued": 1, "permanent": 2, "expired": 0}
    assert app.metrics.value("dead_permanent", task="bad") == 2


@pytest.mark.parametrize("by_hand", [True, False])
def test_stale_jobs_that_were_ended_are_counted(app: Headrace, clock: VirtualClock, by_hand: bool) -> None:
    app.lifecycle.configure(queue="soft", on_stale="fail")
    app.enqueue("bad")
    app.task_by_name("bad").using(queue="soft").enqueue()
    clock.advance(2 * DAY)
    if by_hand:
        app.lifecycle.detect_stale(dry_run=False)
    else:
        maintenance_task = StaleCheck(app.engine, app.settings, 300.0)
        maintenance_task.do()  # chooses its moment
        while maintenance_task.do() == 0.0:
            pass
    read = app.metrics.value
    assert (read("stale_dead"), read("stale_failed"), read("stale_failures")) == (1, 1, 0)


def test_a_check_for_stale_jobs_that_fails_is_counted(
    app: Headrace, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintenance_task = StaleCheck(app.engine, app.settings, 300.0)
    maintenance_task.do()
    monkeypatch.setattr("headrace.runtime.retention.staleness.policies", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        maintenance_task.do()
    monkeypatch.undo()
    assert app.metrics.value("stale_failures") == 1
    assert app.metrics.value("archive_failures") == 0
    assert "headrace_stale_check_failures_total 1.0" in app.metrics.prometheus()[1].decode()

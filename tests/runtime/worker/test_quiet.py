"""Values that are not read again without new events, and what ends that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.events.log import EventGroup
from headrace.core.metrics.buckets import MINUTE
from headrace.runtime.alerts.evaluate import AlertCheck
from headrace.runtime.metrics.collector import MetricsCollector
from headrace.runtime.metrics.gauges import GaugeSampler, gauges_of
from headrace.testing import VirtualClock
from tests.support.counting import operations


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace("memory://", clock=clock) as app:
        yield app


def pending(app: Headrace) -> list[float]:
    """How many jobs waited by the last reading of each minute."""
    read = [gauges_of(document.value) for document in app.engine.document_store.get(MINUTE.kind)]
    return [gauges[""]["pending"].last for gauges in read if "" in gauges]


def test_gauges_are_stored_again_as_they_were_with_one_commit(app: Headrace, clock: VirtualClock) -> None:
    app.enqueue("nobody")
    gathering = MetricsCollector(app.engine, app.settings)
    while not gathering.do():
        pass
    for _ in range(3):
        clock.advance(60)
        with operations() as count:
            assert gathering.do() > 0
        assert count.operations == 3, "the newest event, the live workers, and the commit"
    assert pending(app) == [1.0] * 4
    app.enqueue("nobody")
    clock.advance(60)
    while not gathering.do():
        pass
    assert pending(app) == [1.0] * 4 + [2.0]


def test_each_minute_between_two_rare_samples_has_one(app: Headrace, clock: VirtualClock) -> None:
    app.enqueue("nobody")
    sampler = GaugeSampler(app.engine)
    sampler.sample()
    for _ in range(3):
        clock.advance(180)
        assert sampler.sample(quiet=True)
    assert pending(app) == [1.0] * 10
    clock.advance(3600)
    assert sampler.sample(quiet=True), "nobody looked for an hour: what was between is not known"
    assert pending(app) == [1.0] * 11


def test_readings_of_another_process_in_between_are_kept(app: Headrace, clock: VirtualClock) -> None:
    app.enqueue("nobody")
    first, other = GaugeSampler(app.engine), GaugeSampler(app.engine)
    first.sample()
    for sampler in (other, first, first):
        clock.advance(60)
        assert sampler.sample(quiet=True)
    assert pending(app) == [1.0] * 4, "the first sampler was second to write, so it reads again"


CHANGES: dict[str, Callable[[Headrace], object]] = {
    "an event": lambda app: app.engine.events.append([EventGroup("worker.lost", 1, worker="w1")]),
    "a rule": lambda app: app.alerts.rules.create("many", when="depth > 5"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_rules_are_not_checked_again_until_something_changes(app: Headrace, clock: VirtualClock, change: str) -> None:
    rounds: list[int] = []
    alerting = AlertCheck(app.engine, app.settings, 15.0)
    make_inputs = alerting._make_source

    def counted() -> Any:
        rounds.append(1)
        return make_inputs()

    alerting._make_source = counted

    def check() -> None:
        while not alerting.do():
            pass

    check()
    for _ in range(5):
        clock.advance(60)
        check()
    before = len(rounds)
    CHANGES[change](app)
    clock.advance(60)
    check()
    assert (before, len(rounds)) == (1, 2)

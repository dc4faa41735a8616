"""When an idle worker looks for leases that have ended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.runtime.worker import idle
from headrace.runtime.worker.idle import IdleState
from headrace.testing import VirtualClock


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    moment = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(idle, "time", SimpleNamespace(monotonic=lambda: moment.now))
    return moment


def test_a_lease_that_ends_is_looked_for_when_it_ends(moment: SimpleNamespace) -> None:
    clock = VirtualClock()
    made = IdleState(clock)
    made.leases_end(clock.now() + 5000)
    assert not made.is_time_to_reap()
    clock.advance(5)
    assert made.is_time_to_reap()


def test_a_lease_that_was_given_since_is_found_though_the_next_heartbeat_is_far(moment: SimpleNamespace) -> None:
    """A worker with a lease of an hour beats every twenty minutes; another one may have leases of seconds."""
    made = IdleState(VirtualClock())
    made.leases_end(None)
    moment.now += 11
    assert not made.is_time_to_reap()
    moment.now += 2
    assert [made.is_time_to_reap() for _ in range(2)] == [True, False], "once, and again later"
    moment.now += 13
    assert made.is_time_to_reap()

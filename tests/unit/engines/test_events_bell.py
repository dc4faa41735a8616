"""On PostgreSQL, a bell for events rings again after each ring, for events that were not visible yet."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.engines.postgres import notify_listener
from headrace.engines.postgres.notify_listener import EventsBell


class Bell:
    """A bell that the test rings; a wait moves the time."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.is_rung = False

    def wait(self, timeout: float | None) -> bool:
        assert timeout is not None, "no ring would ever come"
        rung, self.is_rung = self.is_rung, False
        self.seconds += 0.0 if rung else timeout
        return rung

    def ring(self) -> None:
        self.is_rung = True

    def close(self) -> None: ...


@pytest.fixture
def bell(monkeypatch: pytest.MonkeyPatch) -> Bell:
    bell = Bell()
    monkeypatch.setattr(notify_listener, "time", SimpleNamespace(monotonic=lambda: bell.seconds))
    return bell


def rings_within(bell: Bell, listener: EventsBell, seconds: float) -> list[float]:
    """When it rang, from now on."""
    began, found = bell.seconds, list[float]()
    while (left := began + seconds - bell.seconds) > 1e-6:
        if listener.wait(left):
            found.append(round(bell.seconds - began, 2))
    return found


def test_a_bell_without_a_message_does_not_ring(bell: Bell) -> None:
    assert rings_within(bell, EventsBell(bell), 3600.0) == []


def test_each_ring_is_followed_by_others_later_and_later_and_then_by_none(bell: Bell) -> None:
    listener = EventsBell(bell)
    bell.ring()
    rung = rings_within(bell, listener, 3600.0)
    assert rung[:4] == pytest.approx([0.0, 0.15, 0.375, 0.7125], abs=0.01)
    assert len(rung) == 14
    assert rung[-1] < 60
    bell.ring()
    assert rings_within(bell, listener, 0.2) == [0.0, 0.15]

"""The pauses of writers that wait for each other: dozens of them must not keep the one who writes off the processor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engines.sqlite_file import writer_lock
from headrace.engines.sqlite_file.writer_lock import WriterLock, locks

pytestmark = pytest.mark.skipif(locks is None, reason="writers wait at a file lock, which this system lacks")


class HeldLock:
    """A clock on which only pauses pass, and a writer that holds the lock until a moment."""

    def __init__(self, lock: WriterLock) -> None:
        self._lock = lock
        self._now, self._until = 0.0, 0.0
        self.pauses: list[float] = []

    def hold(self, seconds: float) -> None:
        self._lock.enter()
        self._until = self._now + seconds
        self.pauses = []

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._now += seconds
        if self._now >= self._until:
            self._lock.leave()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[WriterLock]:
    lock = WriterLock(tmp_path / "lock", 5.0)
    lock.open()
    yield lock
    lock.close()


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldLock]:
    lock = WriterLock(tmp_path / "lock", 5.0)
    lock.open()
    held = HeldLock(lock)
    monkeypatch.setattr(writer_lock, "time", held)
    yield held
    lock.close()


def _wait(waiting: WriterLock, held: HeldLock, seconds: float) -> list[float]:
    held.hold(seconds)
    waiting.enter()
    waiting.leave()
    return held.pauses


def test_writers_that_wait_long_look_seldom_and_those_that_wait_shortly_look_at_once(
    waiting: WriterLock, held: HeldLock
) -> None:
    assert len(_wait(waiting, held, 0.05)) > 100
    for _ in range(20):
        seldom = _wait(waiting, held, 0.05)
    assert len(seldom) < 20
    for _ in range(30):
        waiting.enter()
        waiting.leave()
    assert len(_wait(waiting, held, 0.05)) > 100


def test_no_pause_is_so_long_that_the_lock_lies_idle(waiting: WriterLock, held: HeldLock) -> None:
    pauses = [pause for _ in range(20) for pause in _wait(waiting, held, 4.0)]
    assert max(pauses) < 0.02


def test_whoever_waits_longer_looks_no_less_often(waiting: WriterLock, held: HeldLock) -> None:
    """Pauses that grow during a wait would let those who came last go first."""
    for _ in range(5):
        pauses = _wait(waiting, held, 1.0)
        assert max(pauses) < 4 * min(pauses)

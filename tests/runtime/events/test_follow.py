"""A follower gets all events, in order, though the store is unavailable for a while."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import EngineUnavailable, Headrace
from headrace.runtime.events import follow

Outage = Callable[..., list[int]]


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:
        yield app


@pytest.fixture
def outage(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> Outage:
    """Has the given reads of events, counted from 1, find no store; each read is noted in the list."""
    kind = type(app.engine.events)
    real = kind.read

    def begin(*lost: int) -> list[int]:
        reads: list[int] = []

        def read(*args: Any, newest_first: bool = False) -> Any:
            if newest_first:  # it asks where the log ends
                return real(*args, newest_first=True)
            reads.append(len(reads) + 1)
            if reads[-1] in lost:
                raise EngineUnavailable("no route to the server")
            return real(*args)

        monkeypatch.setattr(kind, "read", read)
        return reads

    return begin


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses it would have made; it makes none."""
    found: list[float] = []

    async def asleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(follow, "time", SimpleNamespace(sleep=found.append, monotonic=time.monotonic))
    monkeypatch.setattr(follow, "asyncio", SimpleNamespace(sleep=asleep))
    return found


def enqueue(app: Headrace, *names: str) -> str:
    """Enqueue these, one after the other; the cursor of before."""
    before = app.events.last()
    for name in names:
        app.enqueue(name)
    return before


async def first(app: Headrace, many: int, since: str) -> list[str | None]:
    found: list[str | None] = []
    async for event in app.aevents(since):
        found.append(event.task)
        if len(found) == many:
            break
    return found


def test_an_outage_is_waited_out_and_nothing_is_missed(
    app: Headrace, outage: Outage, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    since = enqueue(app, "a", "b")
    outage(1, 3, 4)
    stream = app.events(since)
    found = [event.task for event in itertools.islice(stream, 2)]
    enqueue(app, "c")
    found += [event.task for event in itertools.islice(stream, 1)]
    assert found == ["a", "b", "c"]
    assert pauses == [1.0, follow.POLL, 1.0, 1.0], "a second for each outage"
    assert caplog.text.count("the store is not available: no route to the server") == 2, "once for each outage"
    assert caplog.text.count("the store is available again") == 2


def test_coroutines_wait_it_out_as_well(
    app: Headrace, outage: Outage, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    since = enqueue(app, "a", "b")
    outage(1, 2)
    assert asyncio.run(first(app, 2, since)) == ["a", "b"]
    assert pauses == [1.0, 1.0]
    assert caplog.text.count("the store is not available: no route to the server") == 1
    assert caplog.text.count("the store is available again") == 1


def test_a_reader_that_does_not_follow_gets_the_outage(app: Headrace, outage: Outage, pauses: list[float]) -> None:
    enqueue(app, "a")
    reads = outage(1, 2)
    with pytest.raises(EngineUnavailable, match="no route"):
        list(app.events(follow=False))

    async def collect() -> list[str]:
        return [event.type async for event in app.aevents(follow=False)]

    with pytest.raises(EngineUnavailable, match="no route"):
        asyncio.run(collect())
    assert (reads, pauses) == ([1, 2], [])
    assert asyncio.run(collect()) == [event.type for event in app.events(follow=False)] == ["job.enqueued"]


def test_at_the_end_a_follower_reads_again_after_a_moment(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    since, pauses, names = app.events.last(), list[float](), iter("abcd")

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        app.enqueue(next(names))

    async def asleep(seconds: float) -> None:
        await asyncio.to_thread(sleep, seconds)

    monkeypatch.setattr(follow, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    monkeypatch.setattr(follow, "asyncio", SimpleNamespace(sleep=asleep))
    assert [event.task for event in itertools.islice(app.events(since), 2)] == ["a", "b"]
    assert asyncio.run(first(app, 2, app.events.last())) == ["c", "d"]
    assert pauses == [follow.POLL] * 4


class QuietBell:
    """A bell that rings after so many waits, or never; `passed` are the seconds that it was waited for."""

    def __init__(self, rings_after: int | None) -> None:
        self.rings_after, self.waits, self.passed, self.is_closed = rings_after, 0, 0.0, False

    def wait(self, timeout: float) -> bool:
        self.waits += 1
        is_rung = self.waits == self.rings_after
        self.passed += 0.0 if is_rung else timeout
        return is_rung

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("rings_after", "seconds"), [(1, None), (None, 5.0)])
def test_a_follower_of_a_quiet_store_reads_after_a_ring_or_five_seconds(
    app: Headrace,
    outage: Outage,
    monkeypatch: pytest.MonkeyPatch,
    is_async: bool,
    rings_after: int | None,
    seconds: float | None,
) -> None:
    since, slept, bell = app.events.last(), [0.0], QuietBell(rings_after)

    def sleep(pause: float) -> None:
        slept[0] += pause

    async def asleep(pause: float) -> None:
        sleep(pause)

    fake = SimpleNamespace(sleep=sleep, monotonic=lambda: slept[0] + bell.passed)
    monkeypatch.setattr(follow, "time", fake)
    monkeypatch.setattr(follow, "asyncio", SimpleNamespace(sleep=asleep))
    monkeypatch.setattr(app.engine, "listen", lambda topic: bell)
    reads = outage()
    real = bell.wait

    def wait(timeout: float) -> bool:
        if not bell.waits:
            app.enqueue("late")
        return real(timeout)

    monkeypatch.setattr(bell, "wait", wait)
    if is_async:
        assert asyncio.run(first(app, 1, since)) == ["late"]
    else:
        stream = app.events(since)
        assert next(stream).task == "late"
        stream.close()  # type: ignore[attr-defined]
        assert bell.is_closed
    assert reads == [1, 2]
    assert seconds is None or fake.monotonic() >= seconds

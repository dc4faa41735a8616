"""The store's time: read now and then, extrapolated in between, whatever this machine's clock does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from headrace.engines.shared import server_clock as module
from headrace.engines.shared.server_clock import ServerClock
from headrace.errors import EngineUnavailable

NOW = 1_700_000_000_000  # the server's time at the first moment of a test


class Machine:
    """This machine: a monotonic counter, and a clock that may be set."""

    def __init__(self) -> None:
        self.counter = 500.0
        self.wall_ms = 42

    def passes(self, seconds: float) -> None:
        self.counter += seconds
        self.wall_ms += int(seconds * 1000)


class Server:
    """Answers with its own time. `there` and `back` are seconds that the question and the answer are under way."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._offset = NOW - machine.counter * 1000
        self.there = self.back = 0.0
        self.reads = 0

    @property
    def now(self) -> int:
        return round(self._offset + self._machine.counter * 1000)

    def step(self, ms: int) -> None:
        self._offset += ms

    def ask(self) -> int:
        self.reads += 1
        self._machine.passes(self.there)
        server_time = self.now
        self._machine.passes(self.back)
        return server_time


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(module, "_elapsed", lambda: made.counter)
    monkeypatch.setattr("headrace.engines.shared.server_clock.time.time_ns", lambda: made.wall_ms * 1_000_000)
    return made


@pytest.fixture
def server(machine: Machine) -> Server:
    return Server(machine)


@pytest.fixture
def clock(machine: Machine, server: Server) -> ServerClock:
    """A clock that has read the server once."""
    made = ServerClock(never)
    refresh(made, server.ask)
    return made


def away() -> int:
    raise EngineUnavailable("the server is away")


def never() -> int:
    raise EngineUnavailable("the server was never reached")


def refresh(clock: ServerClock, ask: Callable[[], int]) -> None:
    clock.read_time = ask
    clock.refresh()


def test_the_first_answer_is_the_stores_time_already(server: Server) -> None:
    assert ServerClock(server.ask).now() == NOW
    assert server.reads == 1


def test_an_unavailable_server_is_not_read_again_for_every_answer(machine: Machine, server: Server) -> None:
    reads = []

    def count() -> int:
        reads.append(machine.counter)
        return never()

    clock = ServerClock(count)
    for _ in range(5):
        machine.passes(1)
        clock.now()
    assert len(reads) == 1
    clock.read_time = server.ask
    machine.passes(30)
    assert clock.now() == server.now


def test_until_the_store_answered_it_is_this_machines_time(machine: Machine) -> None:
    clock = ServerClock(never)
    assert clock.now() == 42
    machine.passes(1)
    assert clock.now() == 1042


def test_the_first_read_is_at_once_even_if_the_machine_was_just_started(machine: Machine, server: Server) -> None:
    machine.counter = 0.0
    refresh(ServerClock(never), server.ask)
    assert server.reads == 1


def test_the_time_is_extrapolated(clock: ServerClock, machine: Machine) -> None:
    assert clock.now() == NOW
    machine.passes(12.5)
    assert clock.now() == NOW + 12_500


@pytest.mark.parametrize("step", [-86_400_000, 86_400_000])
def test_a_machine_whose_clock_is_set_does_not_change_the_stores_time(
    clock: ServerClock, machine: Machine, step: int
) -> None:
    machine.wall_ms += step
    machine.passes(1)
    assert clock.now() == NOW + 1000


def test_the_server_is_not_read_again_for_half_a_minute(clock: ServerClock, machine: Machine, server: Server) -> None:
    machine.passes(29.9)
    refresh(clock, server.ask)
    assert server.reads == 1
    machine.passes(0.2)
    refresh(clock, server.ask)
    assert server.reads == 2


@pytest.mark.parametrize("step", [-3000, 3000])
def test_a_server_whose_clock_is_set_is_followed_at_the_next_answer(
    clock: ServerClock, machine: Machine, server: Server, step: int
) -> None:
    server.step(step)
    assert clock.now() == NOW
    machine.passes(30)
    refresh(clock, server.ask)
    assert clock.now() == server.now == NOW + 30_000 + step


def test_an_outage_leaves_the_last_answer_and_does_not_stop_it(clock: ServerClock, machine: Machine) -> None:
    machine.passes(100)
    with pytest.raises(EngineUnavailable):
        refresh(clock, away)
    assert clock.now() == NOW + 100_000


def test_a_failed_read_is_repeated_the_next_time(clock: ServerClock, machine: Machine, server: Server) -> None:
    machine.passes(30)
    with pytest.raises(EngineUnavailable):
        refresh(clock, away)
    refresh(clock, server.ask)
    assert server.reads == 2


def test_a_server_that_is_away_from_the_first_moment_leaves_this_machines_time(machine: Machine) -> None:
    clock = ServerClock(never)
    with pytest.raises(EngineUnavailable):
        refresh(clock, away)
    assert clock.now() == 42


def test_the_clock_is_never_ahead_of_the_server(machine: Machine, server: Server) -> None:
    """Or a job would begin before its time."""
    clock = ServerClock(never)
    server.there = server.back = 0.1
    refresh(clock, server.ask)
    assert clock.now() == server.now - 100


def test_an_answer_that_was_long_under_way_does_not_spoil_a_better_one(
    clock: ServerClock, machine: Machine, server: Server
) -> None:
    """All connections were busy: the middle of such a wait would be seconds off."""
    machine.passes(30)
    server.there = 9.0
    refresh(clock, server.ask)
    assert clock.now() == server.now


def test_a_bad_first_answer_is_put_right_by_the_next_good_one(machine: Machine, server: Server) -> None:
    clock = ServerClock(never)
    server.back = 4.0
    refresh(clock, server.ask)
    assert clock.now() - server.now == -4000
    server.back = 0.0
    machine.passes(30)
    refresh(clock, server.ask)
    assert clock.now() == server.now


def test_a_slow_answer_is_asked_for_again_at_once(machine: Machine, server: Server) -> None:
    def slow_once() -> int:
        server.back = 0.4 if server.reads == 0 else 0.01
        return server.ask()

    clock = ServerClock(never)
    refresh(clock, slow_once)
    assert server.reads == 2
    assert clock.now() == server.now - 10


def test_a_server_that_is_always_slow_is_asked_three_times(machine: Machine, server: Server) -> None:
    server.back = 0.4
    refresh(ServerClock(never), server.ask)
    assert server.reads == 3


def test_a_server_lost_after_its_slow_answer_leaves_that_answer(machine: Machine, server: Server) -> None:
    def slow_then_away() -> int:
        return away() if server.reads else server.ask()

    server.back = 0.4
    clock = ServerClock(never)
    with pytest.raises(EngineUnavailable):
        refresh(clock, slow_then_away)
    assert clock.now() == server.now - 400


def test_a_system_without_a_counter_that_outlasts_sleep_uses_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COUNTER", None)
    before, elapsed, after = time.monotonic(), module._elapsed(), time.monotonic()
    assert before <= elapsed <= after


def test_threads_that_read_at_once_get_one_consistent_time(
    clock: ServerClock, machine: Machine, server: Server
) -> None:
    machine.passes(30)
    start = threading.Barrier(8)

    def in_a_thread(act: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=act)
        thread.start()
        return thread

    def ask() -> None:
        start.wait()
        refresh(clock, server.ask)

    for thread in [in_a_thread(ask) for _ in range(8)]:
        thread.join()
    assert clock.now() == server.now == NOW + 30_000

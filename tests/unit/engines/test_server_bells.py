"""Server bells: one connection and one thread for all bells, and no ring lost, whatever happens to the connection."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from headrace.engines.wakeup import server as module
from headrace.engines.wakeup.server import ServerBell, ServerBells
from tests.support.processes import Child
from tests.support.waiting import PATIENCE, eventually


class Line:
    """A line that the test speaks into."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._local, self._remote = socket.socketpair()
        self._local.setblocking(False)
        self.reads = 0

    def fileno(self) -> int:
        return self._local.fileno()

    def messages(self) -> Iterator[str]:
        self.reads += 1
        try:
            data = self._local.recv(65536)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionError("the other end hung up")
        yield from data.decode().split()

    def send(self, message: str) -> None:
        self._remote.send(f"{message}\n".encode())

    def cut(self) -> None:
        self._remote.close()

    def disconnect(self) -> None:
        self._local.close()
        self._remote.close()
        self._exchange.open.discard(self)
        self._exchange.hung_up.put(self)


class Exchange:
    """Opens lines. `down` makes it refuse; `hold` makes a call hang until `answer` is set."""

    def __init__(self) -> None:
        self.down = False
        self.calls = 0
        self.lines: queue.Queue[Line] = queue.Queue()
        self.hung_up: queue.Queue[Line] = queue.Queue()
        self.open: set[Line] = set()
        self.answer = threading.Event()
        self.answer.set()
        self.called = threading.Event()

    def call(self) -> Line:
        self.calls += 1
        self.called.set()
        assert self.answer.wait(PATIENCE)
        if self.down:
            raise ConnectionError("no answer")
        line = Line(self)
        self.open.add(line)
        self.lines.put(line)
        return line

    def line(self) -> Line:
        """The next line that was opened, or is about to be."""
        return self.lines.get(timeout=PATIENCE)

    def send_to_all(self, message: str) -> None:
        for line in list(self.open):
            with contextlib.suppress(OSError):  # it is just hung up
                line.send(message)


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


@pytest.fixture
def server_bells(exchange: Exchange) -> Iterator[ServerBells]:
    made = ServerBells(exchange.call)
    yield made
    exchange.answer.set()
    made.close()
    eventually(lambda: bell_threads() == 0, "the thread ends")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses a test can wait for."""
    monkeypatch.setattr(module, "_RETRY_FIRST", 0.002)
    monkeypatch.setattr(module, "_RETRY_LONGEST", 0.01)


def bell_threads() -> int:
    return sum(thread.name == "headrace-bell" for thread in threading.enumerate())


# -- ringing


def test_a_message_rings_the_bells_of_its_topic(server_bells: ServerBells, exchange: Exchange) -> None:
    work, done = server_bells.listen("work", ()), server_bells.listen("done", ())
    exchange.line().send("work")
    assert work.wait(PATIENCE)
    assert not done.wait(0)


def test_a_ring_between_a_look_and_the_wait_is_not_lost_and_counts_once(
    server_bells: ServerBells, exchange: Exchange
) -> None:
    bell, last = server_bells.listen("work", ()), server_bells.listen("done", ())
    line = exchange.line()
    line.send("work")
    line.send("work")
    line.send("done")
    assert last.wait(PATIENCE)
    assert bell.wait(0)
    assert not bell.wait(0)


def test_a_ring_at_the_very_end_of_a_wait_is_left_for_the_next_one(server_bells: ServerBells) -> None:
    bell = server_bells.listen("work", ())

    class RungTooLate(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            rung = super().wait(timeout)
            self.set()
            return rung

    bell._event = RungTooLate()
    assert not bell.wait(0)
    assert bell.wait(0)


@pytest.mark.parametrize(
    ("message", "rung"),
    [
        ("work", ["all", "mail", "both"]),
        ("work:mail", ["all", "mail", "both"]),
        ("work:post", ["all", "both"]),
        ("work:mailing", ["all"]),
        ("workshop", []),
        ("done", []),
        ("work:", ["all"]),
    ],
)
def test_a_bell_for_queues_does_not_ring_for_other_queues(
    server_bells: ServerBells, message: str, rung: list[str]
) -> None:
    bells = {
        "all": server_bells.listen("work", ()),
        "mail": server_bells.listen("work", ["mail"]),
        "both": server_bells.listen("work", {"mail", "post"}),
    }
    server_bells.ring(message)
    assert [name for name, bell in bells.items() if bell.wait(0)] == rung


def test_a_bell_may_be_rung_from_within_its_process(server_bells: ServerBells) -> None:
    bell = server_bells.listen("work", ())
    bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0)


def test_a_storm_of_messages_wakes_the_waiter_after_the_last_one(server_bells: ServerBells, exchange: Exchange) -> None:
    bell = server_bells.listen("work", ())
    line = exchange.line()
    for number in range(500):
        line.send("work" if number == 499 else "done")
    assert bell.wait(PATIENCE)


# -- the line and the thread


def test_all_bells_share_one_thread_and_one_line(server_bells: ServerBells, exchange: Exchange) -> None:
    bells = [server_bells.listen("work", ()) for _ in range(50)]
    assert (exchange.calls, bell_threads()) == (1, 1)
    exchange.line().send("work")
    assert all(bell.wait(PATIENCE) for bell in bells)


def test_two_server_bells_have_a_connection_each(server_bells: ServerBells, exchange: Exchange) -> None:
    elsewhere = Exchange()
    other = ServerBells(elsewhere.call)
    first, second = server_bells.listen("work", ()), other.listen("work", ())
    exchange.line().send("work")
    assert first.wait(PATIENCE)
    assert not second.wait(0)
    elsewhere.line().send("work")
    assert second.wait(PATIENCE)
    other.close()
    assert bell_threads() == 1


def test_a_bell_rings_for_every_message_after_it_was_made(server_bells: ServerBells, exchange: Exchange) -> None:
    """Its maker has to wait for the line."""
    exchange.answer.clear()
    made: queue.Queue[ServerBell] = queue.Queue()
    threading.Thread(target=lambda: made.put(server_bells.listen("work", ())), daemon=True).start()
    assert exchange.called.wait(PATIENCE)
    assert made.empty()
    exchange.answer.set()
    bell = made.get(timeout=PATIENCE)
    exchange.line().send("work")
    assert bell.wait(PATIENCE)


def test_a_listener_that_did_not_wait_for_a_slow_connect_is_rung_after_it(
    server_bells: ServerBells, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_LONGEST", 0.02)
    exchange.answer.clear()
    bell = server_bells.listen("work", ())
    assert not bell.wait(0)
    exchange.answer.set()
    assert bell.wait(PATIENCE)


def test_without_bells_there_is_neither_thread_nor_line(server_bells: ServerBells, exchange: Exchange) -> None:
    bells = [server_bells.listen("work", ()) for _ in range(3)]
    line = exchange.line()
    for bell in bells:
        bell.close()
    assert exchange.hung_up.get(timeout=PATIENCE) is line
    eventually(lambda: bell_threads() == 0, "the thread ends")
    assert exchange.calls == 1


def test_a_bell_may_be_closed_twice(server_bells: ServerBells, exchange: Exchange) -> None:
    bell, kept = server_bells.listen("work", ()), server_bells.listen("work", ())
    bell.close()
    bell.close()
    exchange.line().send("work")
    assert kept.wait(PATIENCE)
    assert not bell.wait(0)


def test_a_listener_that_comes_as_the_last_one_leaves_is_rung(server_bells: ServerBells, exchange: Exchange) -> None:
    """Either the thread is still there, or a new one comes, but not both."""
    for _ in range(50):
        server_bells.listen("work", ()).close()
        bell = server_bells.listen("work", ())
        exchange.send_to_all("work")
        assert bell.wait(PATIENCE)
        bell.close()
    kept = server_bells.listen("work", ())
    eventually(lambda: bell_threads() == 1, "one thread is left")
    assert len(exchange.open) == 1
    kept.close()


def test_a_nudge_that_was_not_needed_does_not_keep_the_thread_from_sleeping(
    server_bells: ServerBells, exchange: Exchange
) -> None:
    bell = server_bells.listen("work", ())
    line = exchange.line()
    with server_bells._lock:
        server_bells._nudge()
    eventually(lambda: line.reads >= 2, "the nudge is taken in")
    before = line.reads
    time.sleep(0.05)  # time for a thousand rounds
    assert line.reads <= before + 2
    line.send("work")
    assert bell.wait(PATIENCE)


def test_any_number_of_rings_while_the_connection_hangs_blocks_no_caller(
    server_bells: ServerBells, exchange: Exchange
) -> None:
    kept = threading.Event()
    exchange.answer.clear()

    def listen() -> None:
        server_bells.listen("work", ())
        kept.set()

    threading.Thread(target=listen, daemon=True).start()
    assert exchange.called.wait(PATIENCE)
    for _ in range(2000):
        with server_bells._lock:
            server_bells._nudge()
    exchange.answer.set()
    assert kept.wait(PATIENCE)


# -- a line that breaks


def test_after_a_reconnect_all_bells_ring(server_bells: ServerBells, exchange: Exchange, quick: None) -> None:
    bells = [server_bells.listen("work", ["mail"]), server_bells.listen("done", ())]
    exchange.line().cut()
    exchange.line()
    for bell in bells:
        assert bell.wait(PATIENCE)
    eventually(lambda: not any(bell.wait(0) for bell in bells), "and then there is silence")


def test_messages_on_the_new_connection_ring(server_bells: ServerBells, exchange: Exchange, quick: None) -> None:
    bell = server_bells.listen("work", ())
    for _ in range(3):
        exchange.line().cut()
    line = exchange.line()
    eventually(lambda: line.reads > 0 and not bell.wait(0), "the rings of the reconnect are taken in")
    line.send("work")
    assert bell.wait(PATIENCE)


def test_a_server_that_is_away_holds_up_no_listener(server_bells: ServerBells, exchange: Exchange) -> None:
    exchange.down = True
    bell = server_bells.listen("work", ())
    assert server_bells._up.is_set(), "it was notified, and did not wait for its timeout"
    assert bell.wait(PATIENCE), "it is rung to look for itself"


class Pauses:
    """Records the pause before each reconnect, and does not wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[float] = []
        wait = ServerBells._wait

        def record(server_bells: ServerBells, limit: float, *sources: object) -> None:
            if len(sources) == 1:  # no line to wait for: it is a pause
                self.taken.append(limit)
                limit = 0.0
            wait(server_bells, limit, *sources)  # type: ignore[arg-type]

        monkeypatch.setattr(ServerBells, "_wait", record)
        monkeypatch.setattr("headrace.engines.wakeup.server.random.uniform", lambda _, most: most)


def test_a_line_that_fails_again_and_again_is_called_less_and_less_by_one_thread(
    server_bells: ServerBells, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Pauses(monkeypatch)
    exchange.down = True
    server_bells.listen("work", ())
    eventually(lambda: len(pauses.taken) > 8, "it goes on calling")
    assert bell_threads() == 1
    assert pauses.taken[:8] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])


def test_a_line_that_opens_and_breaks_at_once_is_called_less_and_less_too(
    server_bells: ServerBells, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Pauses(monkeypatch)
    call = exchange.call

    def call_in_vain() -> Line:
        line = call()
        line.cut()
        return line

    server_bells._connect = call_in_vain
    server_bells.listen("work", ())
    eventually(lambda: len(pauses.taken) > 4, "it goes on calling")
    assert pauses.taken[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_a_line_that_held_for_long_is_called_again_soon(
    server_bells: ServerBells, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_LONGEST", 0.4)
    pauses = Pauses(monkeypatch)
    exchange.down = True
    server_bells.listen("work", ())
    eventually(lambda: len(pauses.taken) > 3, "the pauses are long")
    exchange.down = False
    line = exchange.line()
    held_until = time.monotonic() + 0.45
    eventually(lambda: time.monotonic() > held_until, "the line holds for longer than any pause")
    before = len(pauses.taken)
    line.cut()
    exchange.line()
    assert pauses.taken[before:] == pytest.approx([0.1])


def test_a_thread_that_can_not_be_started_is_tried_again_by_the_next_listener(
    server_bells: ServerBells, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as crowded:
        crowded.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("no more threads")))
        with pytest.raises(RuntimeError):
            server_bells.listen("work", ())
    bell = server_bells.listen("work", ())
    exchange.line().send("work")
    assert bell.wait(PATIENCE)


# -- closing


def test_closed_server_bells_drop_their_connection_and_still_ring_in_the_process(
    server_bells: ServerBells, exchange: Exchange
) -> None:
    bell = server_bells.listen("work", ())
    line = exchange.line()
    server_bells.close()
    assert bell_threads() == 0
    assert exchange.hung_up.get(timeout=PATIENCE) is line
    server_bells.ring("work")
    assert bell.wait(0)


def test_a_listener_after_the_close_connects_again_for_all(server_bells: ServerBells, exchange: Exchange) -> None:
    old = server_bells.listen("work", ())
    exchange.line()
    server_bells.close()
    new = server_bells.listen("work", ())
    exchange.line().send("work")
    assert new.wait(PATIENCE)
    assert old.wait(PATIENCE)


def test_server_bells_closed_during_a_connect_end_right_after_it(server_bells: ServerBells, exchange: Exchange) -> None:
    exchange.answer.clear()
    threading.Thread(target=lambda: server_bells.listen("work", ()), daemon=True).start()
    assert exchange.called.wait(PATIENCE)
    closing = threading.Thread(target=server_bells.close)
    closing.start()
    eventually(lambda: server_bells._is_closed, "the close is under way")
    exchange.answer.set()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    exchange.hung_up.get(timeout=PATIENCE)
    assert bell_threads() == 0


def test_server_bells_closed_during_a_pause_end_at_once(
    server_bells: ServerBells, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headrace.engines.wakeup.server.random.uniform", lambda *_: 2 * PATIENCE
    )  # longer than it is awaited
    exchange.down = True
    for _ in range(3):
        server_bells.listen("work", ())
    server_bells.close()
    assert bell_threads() == 0


def test_unused_server_bells_may_be_closed_twice(server_bells: ServerBells, exchange: Exchange) -> None:
    server_bells.close()
    server_bells.close()
    assert exchange.calls == 0


# -- a fork

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@forks
def test_a_forked_child_has_a_thread_and_a_line_of_its_own(server_bells: ServerBells, exchange: Exchange) -> None:
    bell = server_bells.listen("work", ())
    line = exchange.line()

    def act(_: Connection) -> object:
        before = bell_threads()
        listener = server_bells.listen("work", ())
        exchange.line().send("work")
        return before, listener.wait(PATIENCE), bell_threads(), exchange.calls

    child = Child(act)
    assert child.hear() == (0, True, 1, 2)
    child.end()
    line.send("work")
    assert bell.wait(PATIENCE)


@forks
@pytest.mark.parametrize("act", ["close the bells", "close the bell", "both"])
def test_a_child_that_clears_up_leaves_its_parents_thread_alone(
    server_bells: ServerBells, exchange: Exchange, act: str
) -> None:
    bell = server_bells.listen("work", ())
    line = exchange.line()

    def clear_up(_: Connection) -> object:
        if act != "close the bells":
            bell.close()
        if act != "close the bell":
            server_bells.close()
        return "done"

    child = Child(clear_up)
    assert child.hear() == "done"
    child.end()
    line.send("done")
    eventually(lambda: line.reads >= 2, "the parent still reads")
    before = line.reads
    time.sleep(0.05)  # time for a thousand rounds, if it were nudged for ever
    assert line.reads <= before + 2
    line.send("work")
    assert bell.wait(PATIENCE)


@forks
def test_a_fork_while_the_bells_are_locked_leaves_the_child_able_to_listen(
    server_bells: ServerBells, exchange: Exchange
) -> None:
    with server_bells._lock:  # as a thread of the parent may have it at that moment
        child = Child(lambda _: server_bells.listen("work", ()).wait(0))
    assert child.hear() is False
    child.end()


# -- where the server can't call


def never() -> Line:
    raise AssertionError("there is no line in this mode")


def test_without_a_connection_a_bell_rings_by_itself() -> None:
    server_bells = ServerBells(never, poll=0.02)
    bell = server_bells.listen("work", ())
    assert bell_threads() == 0
    assert bell.wait(PATIENCE)
    assert bell.wait(None)
    server_bells.close()


def test_a_polling_bell_is_silent_in_between() -> None:
    bell = ServerBells(never, poll=PATIENCE).listen("work", ())
    assert not bell.wait(0)
    assert not bell.wait(0.01)


def test_a_listener_that_waits_often_and_briefly_is_rung_too() -> None:
    bell = ServerBells(never, poll=0.05).listen("work", ())
    eventually(lambda: bell.wait(0.001), "it rings in the end")
    assert not bell.wait(0)


def test_orders_are_not_looked_for_all_the_time() -> None:
    """They come with the heartbeat, and a look for them is a write."""
    server_bells = ServerBells(never, poll=0.001)
    bell = server_bells.listen("commands", ())
    assert not bell.wait(0.05)
    server_bells.ring("commands")
    assert bell.wait(0)


def test_a_polling_bell_is_rung_at_once_within_its_process() -> None:
    server_bells = ServerBells(never, poll=PATIENCE)
    bell, other = server_bells.listen("work", ["mail"]), server_bells.listen("done", ())
    server_bells.ring("work:mail")
    assert bell.wait(0)
    assert not bell.wait(0)
    assert not other.wait(0)
    bell.close()
    server_bells.ring("work:mail")
    assert not bell.wait(0)

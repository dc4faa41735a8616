"""The same-host doorbell: no ring is lost, none goes astray, the dead leave nothing behind."""

from __future__ import annotations

import os
import queue
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.wakeup import local as module
from headrace.engines.wakeup.local import LocalBells, PollBell, SocketBell
from tests.support.waiting import PATIENCE


def never() -> bool:
    return False


@pytest.fixture
def local_bells(folder: Path) -> Iterator[LocalBells]:
    made = LocalBells(folder)
    yield made
    made.close()


def sockets_in(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".bell"))


def wait_in_a_thread(bell: SocketBell | PollBell) -> tuple[threading.Thread, queue.Queue[bool]]:
    rings: queue.Queue[bool] = queue.Queue()
    thread = threading.Thread(target=lambda: rings.put(bell.wait(PATIENCE)))
    thread.start()
    return thread, rings


# -- a socket


@pytest.fixture
def bell(local_bells: LocalBells) -> Iterator[SocketBell]:
    made = local_bells.listen("work", never)
    assert isinstance(made, SocketBell)
    yield made
    made.close()


def test_a_ring_before_the_wait_is_not_lost(bell: SocketBell, local_bells: LocalBells) -> None:
    local_bells.ring("work")
    assert bell.wait(0)


def test_rings_before_the_wait_count_once(bell: SocketBell, local_bells: LocalBells) -> None:
    for _ in range(5):
        local_bells.ring("work")
        bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0)


def test_a_bell_without_a_ring_times_out(bell: SocketBell) -> None:
    assert not bell.wait(0)
    assert not bell.wait(0.01)


def test_a_ring_wakes_a_waiter_in_another_thread(bell: SocketBell, local_bells: LocalBells) -> None:
    for ring in (bell.ring, lambda: local_bells.ring("work")):
        thread, rings = wait_in_a_thread(bell)
        ring()
        assert rings.get(timeout=PATIENCE)
        thread.join()


def test_a_ring_while_the_last_one_is_taken_in_does_not_silence_the_next(bell: SocketBell) -> None:
    """A ringer that comes between the receiver's first look and its clearing of the rest."""

    inner = bell._own

    class MeddledSocket:
        def recv(self, *arguments: int) -> bytes:
            bell.ring()
            return inner.recv(*arguments)

        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

    bell.ring()
    bell._own = MeddledSocket()  # type: ignore[assignment]
    assert bell.wait(0)
    bell._own = inner
    bell.wait(0)  # takes in whatever the meddling rings left behind
    bell.ring()
    assert bell.wait(0), "the bell is dumb from here on"


def test_rings_from_many_threads_never_leave_the_bell_dumb(bell: SocketBell) -> None:
    rounds = 2000
    turns: queue.Queue[int] = queue.Queue()

    def ring_for_each_turn() -> None:
        while turns.get():
            bell.ring()

    threads = [threading.Thread(target=ring_for_each_turn) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(1, rounds):
        turns.put(turn)
        assert bell.wait(PATIENCE), f"the ring of turn {turn} was lost"
    for _ in threads:
        turns.put(0)
    for thread in threads:
        thread.join()


def test_two_threads_that_ring_for_the_first_time_share_a_socket_and_leave_none_open(
    bell: SocketBell, local_bells: LocalBells, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, both = list[socket.socket](), threading.Barrier(2)
    new_socket = socket.socket

    def made_at_the_same_time(*kind: Any) -> socket.socket:
        both.wait(PATIENCE)
        made.append(new_socket(*kind))
        return made[-1]

    monkeypatch.setattr(socket, "socket", made_at_the_same_time)
    threads = [threading.Thread(target=local_bells.ring, args=("work",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert bell.wait(PATIENCE)
    assert sorted(one.fileno() == -1 for one in made) == [False, True]
    local_bells.close()
    assert [one.fileno() for one in made] == [-1, -1]


def test_a_full_buffer_is_rings_enough(bell: SocketBell, local_bells: LocalBells) -> None:
    for _ in range(2000):
        local_bells.ring("work")
    assert bell.wait(0)
    assert not bell.wait(0)
    bell.ring()
    assert bell.wait(0)


def test_the_backstop_notices_a_change_without_a_ring(local_bells: LocalBells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BACKSTOP", 0.001)
    answers = iter([False, False, True])
    bell = local_bells.listen("work", lambda: next(answers))
    assert bell.wait(None)
    bell.close()


def test_a_closed_bell_leaves_no_socket(local_bells: LocalBells, folder: Path) -> None:
    bell = local_bells.listen("work", never)
    assert len(sockets_in(folder)) == 1
    bell.close()
    assert sockets_in(folder) == []
    local_bells.ring("work")
    bell.close()  # twice is no error


# -- a folder of them


def test_a_ring_reaches_every_listener_of_its_topic_and_no_other(local_bells: LocalBells) -> None:
    topics = ["work", "work", "done", "commands", "workshop"]
    bells = [local_bells.listen(topic, never) for topic in topics]
    local_bells.ring("work")
    assert [bell.wait(0) for bell in bells] == [True, True, False, False, False]
    for bell in bells:
        bell.close()


def test_a_listener_that_comes_late_is_reached_as_well(local_bells: LocalBells) -> None:
    for _ in range(20):
        bell = local_bells.listen("work", never)
        local_bells.ring("work")
        assert bell.wait(0)
        bell.close()


def test_a_known_folder_is_not_listed_again_until_it_changes(
    local_bells: LocalBells, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = local_bells.listen("work", never)
    long_ago = os.stat(folder).st_mtime_ns - 10**9
    os.utime(folder, ns=(long_ago, long_ago))
    listed: list[str] = []
    real = os.listdir

    def listdir(path: str) -> list[str]:
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    for _ in range(3):
        local_bells.ring("work")
    assert len(listed) == 1
    assert first.wait(0)
    second = local_bells.listen("work", never)
    local_bells.ring("work")
    assert second.wait(0)
    first.close()
    second.close()


def test_the_socket_of_a_dead_listener_is_removed_and_the_others_are_rung(
    local_bells: LocalBells, folder: Path
) -> None:
    program = (
        "import sys; from pathlib import Path; from headrace.engines.wakeup.local import LocalBells; "
        "bell = LocalBells(Path(sys.argv[1])).listen('work', lambda: False); print('ready', flush=True); bell.wait(60)"
    )
    source = Path(module.__file__).parents[3]
    listener = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert listener.stdout is not None
    assert listener.stdout.readline()
    listener.kill()
    listener.wait()
    listener.stdout.close()
    assert len(sockets_in(folder)) == 1
    bell = local_bells.listen("work", never)
    local_bells.ring("work")
    assert bell.wait(0)
    assert len(sockets_in(folder)) == 1  # the living one's
    bell.close()


def test_a_folder_that_is_not_there_has_no_listeners(folder: Path) -> None:
    LocalBells(folder / "missing").ring("work")
    assert not (folder / "missing").exists()


def test_local_bells_work_again_after_a_close(local_bells: LocalBells) -> None:
    bell = local_bells.listen("work", never)
    local_bells.ring("work")
    local_bells.close()
    local_bells.close()
    assert bell.wait(0)
    local_bells.ring("work")
    assert bell.wait(0)
    local_bells.close()
    bell.close()


# -- where a cleaner of temporary files came by


@pytest.fixture(params=["short path", "long path"])
def cleared(request: pytest.FixtureRequest, folder: Path) -> Path:
    if request.param == "long path" and not sys.platform.startswith("linux"):
        pytest.skip("elsewhere a long path has no short name")
    made = folder / ("d" if request.param == "short path" else "long" * 25)
    made.mkdir()
    return made


def test_a_listener_whose_folder_was_removed_is_rung_by_its_own_process_and_then_by_others(cleared: Path) -> None:
    listening, ringing = LocalBells(cleared), LocalBells(cleared)
    bell = listening.listen("work", never)
    ringing.ring("work")
    assert bell.wait(0)
    shutil.rmtree(cleared)
    ringing.ring("work")  # no listener, and no error
    for _ in range(2):
        bell.ring()
        assert bell.wait(0)
    assert bell.wait(0)  # it is bound anew, and what was rung meanwhile may be lost
    assert not bell.wait(0)
    ringing.ring("work")
    assert bell.wait(0)
    assert stat.S_IMODE(cleared.stat().st_mode) == 0o700
    bell.close()
    assert sockets_in(cleared) == []
    listening.close()
    ringing.close()


def test_a_folder_that_was_cleared_away_can_be_listened_in(cleared: Path) -> None:
    local_bells = LocalBells(cleared)
    local_bells.listen("work", never).close()
    shutil.rmtree(cleared)
    bell = local_bells.listen("work", never)
    assert isinstance(bell, SocketBell)
    local_bells.ring("work")
    assert bell.wait(0)
    bell.close()
    local_bells.close()


def test_a_ring_that_could_not_be_sent_does_not_silence_the_next(bell: SocketBell) -> None:
    rope = bell._own_sender

    class CutRope:
        def send(self, _: bytes) -> int:
            raise OSError("no buffer space")

    bell._own_sender = CutRope()  # type: ignore[assignment]
    bell.ring()
    bell._own_sender = rope
    bell.ring()
    assert bell.wait(0)


# -- where sockets don't serve


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere a long path has no short name")
def test_a_path_too_long_for_an_address_is_rung_by_a_shorter_name(folder: Path) -> None:
    deep = folder / ("long" * 25)
    deep.mkdir()
    listening, ringing = LocalBells(deep), LocalBells(deep)
    bell = listening.listen("work", never)
    assert isinstance(bell, SocketBell)
    ringing.ring("work")
    assert bell.wait(0)
    bell.ring()
    assert bell.wait(0)
    bell.close()
    assert sockets_in(deep) == []
    listening.close()
    ringing.close()


def test_a_filesystem_without_sockets_falls_back_to_looking(
    local_bells: LocalBells, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("operation not supported")

    monkeypatch.setattr(socket.socket, "bind", refuse, raising=False)
    assert isinstance(local_bells.listen("work", never), PollBell)


def test_a_polling_bell_rings_for_its_own_process_and_the_store() -> None:
    answers = iter([False, True])
    bell = PollBell(lambda: next(answers, False))
    bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0)
    assert bell.wait(0)
    thread, rings = wait_in_a_thread(bell)
    bell.ring()
    assert rings.get(timeout=PATIENCE)
    thread.join()
    bell.close()

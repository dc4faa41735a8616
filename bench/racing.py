"""Has a peer do the same work, and reads its figures."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.board import Board
from bench.child import Child, Timed, time_in_child
from bench.ground import Ground, Store
from bench.peers import Peer

_SLOWEST = 30  # jobs a second
_WARM_UP = 5
_ANSWERED_WITHIN = 60.0
_LOOK = 0.02


def ask_each(ground: Ground, ask: Callable[[Peer], dict[str, float]]) -> dict[str, float]:
    """Everybody's readings. A peer that fails is left out from now on, and the report says why."""
    readings: dict[str, float] = {}
    for peer in ground.peers:
        try:
            readings |= ask(peer)
        except Exception as error:  # the other peers are still worth measuring
            ground.leave_out(peer, error)
    return readings


@contextlib.contextmanager
def database(ground: Ground) -> Iterator[Store]:
    """An empty database for one peer."""
    with ground.place.for_peer() as url:
        yield Store(url, ground.durability)


def enqueue(ground: Ground, peer: Peer, jobs: int) -> Timed:
    """One job at a time."""
    with database(ground) as store:
        return _timed(ground, store, peer, "enqueue", jobs)


def drain(ground: Ground, peer: Peer, jobs: int, processes: int) -> tuple[float, float]:
    """Jobs a second, and microseconds of processor time a job in the worker processes.

    Its clock runs from its first finished job on, so its start costs it nothing; ours runs from the start on.
    """
    with database(ground) as store:
        _timed(ground, store, peer, "fill", jobs)
        # It keeps no results: then only an empty queue tells that all is over.
        expected = jobs if peer.keeps else -1
        with _child(ground, store, peer, "settle", expected) as mark_stale:
            mark_stale.wait_until_ready()
            with _working(ground, store, peer, processes) as (board, check):
                first = board.wait_for(1, _ANSWERED_WITHIN, check)
                score = board.wait_for(jobs, 30 + jobs / _SLOWEST, check)
                mark_stale.go()
                settled = mark_stale.answer()
    if peer.keeps and settled.jobs != jobs:
        raise AssertionError(f"it kept {settled.jobs} of {jobs} jobs: the comparison would not be fair")
    seconds = (score.seen - first.seen) / 1e9 + settled.seconds
    return (jobs - first.total) / seconds, score.effort


@contextlib.contextmanager
def _working(ground: Ground, store: Store, peer: Peer, processes: int) -> Iterator[tuple[Board, Callable[[], None]]]:
    """Worker processes that have been told to go: their board, and a look whether all are alive."""
    chalk = ground.path(".board")
    board = Board(chalk, processes)
    with contextlib.ExitStack() as stack:
        stack.callback(chalk.unlink)
        stack.callback(board.close)
        workers = [
            stack.enter_context(_child(ground, store, peer, "work", chalk, processes, row)) for row in range(processes)
        ]
        for worker in workers:
            worker.wait_until_ready()
        for worker in workers:
            worker.go()

        def check() -> None:
            for worker in workers:
                worker.check()

        yield board, check


def delays(ground: Ground, peer: Peer, samples: int) -> list[float]:
    """Milliseconds from enqueue to start in another, idle process."""
    log = ground.path(".delays")
    log.touch()
    with database(ground) as store, _child(ground, store, peer, "send", samples, _WARM_UP) as sender:
        sender.wait_until_ready()
        with _child(ground, store, peer, "serve", log) as worker:
            worker.wait_until_ready()
            worker.go()
            sender.go()
            sender.wait_until_ready()
            _wait_for_lines(log, _WARM_UP, worker)
            sender.go()
            sender.answer()
            lines = _wait_for_lines(log, _WARM_UP + samples, worker)
    log.unlink()
    return [int(line) / 1e6 for line in lines[_WARM_UP:]]


def _wait_for_lines(log: Path, count: int, worker: Child) -> list[str]:
    deadline = time.monotonic() + _ANSWERED_WITHIN
    while len(lines := log.read_text().splitlines()) < count:
        worker.check()
        if time.monotonic() > deadline:
            raise worker.failure(f"ran {len(lines)} of {count} jobs")
        time.sleep(_LOOK)
    return lines


def _child(ground: Ground, store: Store, peer: Peer, *arguments: object) -> Child:
    return Child(ground, store, "peer", peer.module, peer.option, *arguments, python=ground.python_of(peer))


def _timed(ground: Ground, store: Store, peer: Peer, *arguments: object) -> Timed:
    return time_in_child(ground, store, "peer", peer.module, peer.option, *arguments, python=ground.python_of(peer))

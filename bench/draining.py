"""Fills stores, has headrace worker processes drain them, and reads the rate off their board."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from bench.board import Board, Score
from bench.child import Child
from bench.ground import Ground, Store
from bench.tasks import Subject, open_subject
from headrace import Task

CONCURRENCY = 4
MANY_AT_ONCE = 64
_SLOWEST = 200  # jobs a second; slower than this is a defect, not a figure


class Crew:
    """Worker processes that have been told to go, and their board."""

    def __init__(self, board: Board, children: list[Child]) -> None:
        self._board = board
        self._children = children

    def wait_for(self, jobs: int) -> Score:
        """The score once so many jobs are completed."""
        try:
            return self._board.wait_for(jobs, 30 + jobs / _SLOWEST, self._check)
        except TimeoutError as error:
            raise self._children[0].failure(f"is too slow, {error}") from None

    def _check(self) -> None:
        for child in self._children:
            child.check()


@contextlib.contextmanager
def working(
    ground: Ground, store: Store, processes: int = 1, concurrency: int = CONCURRENCY, names: int = 0
) -> Iterator[Crew]:
    """Workers on the store, started together, all ready before the first one goes."""
    chalk = ground.path(".board")
    board = Board(chalk, processes)
    with contextlib.ExitStack() as stack:
        stack.callback(chalk.unlink)
        stack.callback(board.close)
        children = [
            stack.enter_context(Child(ground, store, "worker", "watch", concurrency, names, chalk, processes, row))
            for row in range(processes)
        ]
        for child in children:
            child.wait_until_ready()
        for child in children:
            child.go()
        yield Crew(board, children)


def drain(ground: Ground, store: Store, jobs: int, processes: int = 1, concurrency: int = CONCURRENCY) -> Score:
    """Workers on a store of so many jobs, until all are completed."""
    with working(ground, store, processes, concurrency) as worker_state:
        return worker_state.wait_for(jobs)


def prepare(store: Store) -> None:
    """Make a store's tables, so that whoever opens it finds them."""
    subject = open_subject(store.url, store.durability)
    with subject.app:
        subject.finished()


def fill(store: Store, jobs: int, choose: Callable[[Subject], Task[..., Any, Any]]) -> None:
    """Put waiting jobs into a store, and leave it closed for whoever drains it."""
    subject = open_subject(store.url, store.durability, store.tells)
    with subject.app:
        subject.fill(jobs, choose(subject))

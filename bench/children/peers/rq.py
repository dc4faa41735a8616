# mypy: disable-error-code="import-not-found, import-untyped"
"""RQ with results, and with the worker that runs jobs in its own process: a fork for each job takes much longer."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import redis
from rq import Queue, SimpleWorker

from bench.children.peers import Act, Side

_BATCH = 1000
_acts: list[Act] = []  # it finds a job's function by the name of its module


def job(number: int) -> int:
    return _acts[0](number)


class RqSide:
    """RQ with one function."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url)
        self._queue: Any = Queue("bench", connection=self._client)

    def prepare(self) -> None:
        """Nothing to make."""

    def enqueue(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._queue.enqueue(job, number)

    def fill(self, numbers: Iterable[int]) -> None:
        calls = [Queue.prepare_data(job, (number,)) for number in numbers]
        for start in range(0, len(calls), _BATCH):
            self._queue.enqueue_many(calls[start : start + _BATCH])

    def work(self) -> None:
        logging.getLogger("rq.worker").setLevel(logging.WARNING)
        SimpleWorker([self._queue], connection=self._client).work(logging_level="WARNING")

    def left(self) -> int:
        return int(len(self._queue) + self._queue.started_job_registry.count)

    def kept(self) -> int:
        return int(self._queue.finished_job_registry.count)


def open_side(url: str, option: str, act: Act) -> Side:
    """RQ on the database."""
    _acts[:] = [act]
    return RqSide(url)

# mypy: disable-error-code="import-not-found, import-untyped"
"""Celery on Redis with results, and with its solo pool: the least of its ways from the queue to the job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import redis
from celery import Celery

from bench.children.peers import Act, Side


class CelerySide:
    """Celery with one task."""

    def __init__(self, url: str, act: Act) -> None:
        self._client = redis.Redis.from_url(url)
        self._app: Any = Celery("bench", broker=url, backend=url)
        self._app.conf.update(
            worker_prefetch_multiplier=100,
            worker_hijack_root_logger=False,
            worker_send_task_events=False,
            broker_connection_retry_on_startup=True,
        )

        def job(number: int) -> int:
            return act(number)

        self._job = self._app.task(name="job")(job)

    def prepare(self) -> None:
        """Nothing to make."""

    def enqueue(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._job.delay(number)

    def fill(self, numbers: Iterable[int]) -> None:
        self.enqueue(numbers)

    def work(self) -> None:
        self._app.Worker(
            pool="solo", loglevel="WARNING", without_gossip=True, without_mingle=True, without_heartbeat=True
        ).start()

    def left(self) -> int:
        return int(self._client.llen("celery"))

    def kept(self) -> int:
        return sum(1 for _ in self._client.scan_iter("celery-task-meta-*", count=5000))


def open_side(url: str, option: str, act: Act) -> Side:
    """Celery on the database."""
    return CelerySide(url, act)

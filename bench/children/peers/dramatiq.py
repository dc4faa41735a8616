# mypy: disable-error-code="import-not-found, import-untyped"
"""dramatiq on Redis. The option is the number of its threads, with "results" before it if they are kept."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from bench.children.peers import Act, Side


class DramatiqSide:
    """dramatiq with one actor."""

    def __init__(self, url: str, threads: int, results: bool, act: Act) -> None:
        self._threads = threads
        self._broker: Any = RedisBroker(url=url)
        if results:
            self._broker.add_middleware(Results(backend=RedisBackend(url=url)))
        options = {"store_results": True} if results else {}

        def job(number: int) -> int | None:
            done = act(number)
            return done if results else None  # it warns of each result that it does not keep

        self._job: Any = dramatiq.actor(job, broker=self._broker, **options)

    def prepare(self) -> None:
        """Nothing to make."""

    def enqueue(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._job.send(number)

    def fill(self, numbers: Iterable[int]) -> None:
        self.enqueue(numbers)

    def work(self) -> None:
        dramatiq.Worker(self._broker, worker_threads=self._threads).start()
        threading.Event().wait()

    def left(self) -> int:
        # A message lies in the hash beside the queue until it is acknowledged.
        return int(self._broker.client.hlen("dramatiq:default.msgs"))

    def kept(self) -> int:
        # A result's key is a bare checksum; everything else has the name in front.
        own = sum(1 for _ in self._broker.client.scan_iter("dramatiq:*", count=5000))
        return int(self._broker.client.dbsize()) - own


def open_side(url: str, option: str, act: Act) -> Side:
    """dramatiq on the database."""
    results, _, threads = option.rpartition(" ")
    return DramatiqSide(url, int(threads), bool(results), act)

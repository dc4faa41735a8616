"""A lock for threads that have to act in the order in which they came; a plain lock promises no order."""

from __future__ import annotations

import threading
from collections import deque


class Turns:
    """As a context manager, it holds the lock."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._queue = deque[object]()  # the first one holds the lock

    def __enter__(self) -> None:
        own = object()
        with self._condition:
            self._queue.append(own)
            try:
                self._condition.wait_for(lambda: self._queue[0] is own)
            except BaseException:  # an interrupt, such as a timeout
                self._queue.remove(own)
                self._condition.notify_all()
                raise

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._queue.popleft()
            self._condition.notify_all()

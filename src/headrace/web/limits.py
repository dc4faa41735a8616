"""How much one client may ask for: requests in a second, bytes in a body."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_CLIENTS = 10_000


class Pace:
    """A token bucket for each client; the longest-unseen are forgotten when there are too many."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = 1 / rate
        self._burst = burst
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, client: str, cost: float = 1.0) -> float:
        """Take so much for this client; 0.0, or the seconds after which there will be enough."""
        now = self._clock()
        full_at = max(self._full_at.get(client, 0.0), now)
        late = full_at + cost * self._every - (now + self._burst * self._every)
        if late <= 0:
            self._full_at[client] = full_at + cost * self._every
            self._full_at.move_to_end(client)
            if len(self._full_at) > _CLIENTS:
                self._full_at.popitem(last=False)
        return max(late, 0.0)

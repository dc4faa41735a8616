"""Rate limits of clients and of failed logins."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable

_CLIENTS = 10_000
_TRIES, _TRIES_AT_ONCE = 0.5, 10.0  # wrong passwords per second, and burst
_TOKENS, _TOKENS_AT_ONCE = 2.0, 20.0  # wrong tokens: they have no names, so all clients share one count


class RateLimiter:
    """A token bucket for each client; evicts the least recently seen when there are too many."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = 1 / rate
        self._burst = burst
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, client: str) -> float:
        """Take one token; return 0.0, or the seconds until one is available."""
        late = self.late(client)
        if late <= 0:
            self._full_at[client] = max(self._full_at.get(client, 0.0), self._clock()) + self._every
            self._full_at.move_to_end(client)
            if len(self._full_at) > _CLIENTS:
                self._full_at.popitem(last=False)
        return late

    def late(self, client: str) -> float:
        """Like `take`, without taking a token."""
        now = self._clock()
        full_at = max(self._full_at.get(client, 0.0), now)
        return max(full_at + self._every - (now + self._burst * self._every), 0.0)


class LoginAttempts:
    """Limits wrong passwords and tokens per client and per name.

    The limit per name exists because a client may spoof its address. Credentials that were right before from the same
    address are exempt from it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = RateLimiter(_TRIES, _TRIES_AT_ONCE, clock)
        self._names = RateLimiter(_TRIES, _TRIES_AT_ONCE, clock)
        self._tokens = RateLimiter(_TOKENS, _TOKENS_AT_ONCE, clock)
        self._proven: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def late(self, client: str, name: str | None, secret: str) -> float:
        """Seconds to wait before checking these credentials. `name` is None for a token.

        The wait comes before the check: delaying only wrong ones would answer every guess.
        """
        if (client, _digest(name, secret)) in self._proven:
            return self._clients.late(client)
        return max(self._clients.late(client), self._of_name(name).late(name or ""))

    def wrong(self, client: str, name: str | None) -> None:
        """Count wrong credentials."""
        self._clients.wait(client)
        self._of_name(name).wait(name or "")

    def right(self, client: str, name: str | None, secret: str) -> None:
        """Remember right credentials."""
        known = (client, _digest(name, secret))
        self._proven[known] = None
        self._proven.move_to_end(known)
        if len(self._proven) > _CLIENTS:
            self._proven.popitem(last=False)

    def _of_name(self, name: str | None) -> RateLimiter:
        return self._tokens if name is None else self._names


def _digest(name: str | None, secret: str) -> bytes:
    return hashlib.sha256(repr((name, secret)).encode()).digest()

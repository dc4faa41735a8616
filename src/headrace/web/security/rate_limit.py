"""Rate limits of clients and of failed logins."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable

_MAX_CLIENTS = 10_000
_PASSWORD_RATE, _PASSWORD_BURST = 0.5, 10.0  # wrong passwords per second, and burst
_TOKEN_RATE, _TOKEN_BURST = 2.0, 20.0  # wrong tokens: they have no names, so all clients share one count


class RateLimiter:
    """A token bucket for each client; evicts the least recently seen when there are too many."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1 / rate
        self._burst = burst
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def take(self, client: str) -> float:
        """Take one token; return 0.0, or the seconds until one is available."""
        wait_time = self.wait_time(client)
        if wait_time <= 0:
            self._full_at[client] = max(self._full_at.get(client, 0.0), self._clock()) + self._interval
            self._full_at.move_to_end(client)
            if len(self._full_at) > _MAX_CLIENTS:
                self._full_at.popitem(last=False)
        return wait_time

    def wait_time(self, client: str) -> float:
        """Like `take`, without taking a token."""
        now = self._clock()
        full_at = max(self._full_at.get(client, 0.0), now)
        return max(full_at + self._interval - (now + self._burst * self._interval), 0.0)


class LoginAttempts:
    """Limits wrong passwords and tokens per client and per name.

    The limit per name exists because a client may spoof its address. Credentials that were right before from the same
    address are exempt from it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = RateLimiter(_PASSWORD_RATE, _PASSWORD_BURST, clock)
        self._names = RateLimiter(_PASSWORD_RATE, _PASSWORD_BURST, clock)
        self._tokens = RateLimiter(_TOKEN_RATE, _TOKEN_BURST, clock)
        self._verified: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def wait_time(self, client: str, name: str | None, secret: str) -> float:
        """Seconds to wait before checking these credentials. `name` is None for a token.

        The wait comes before the check: delaying only wrong ones would answer every guess.
        """
        if (client, _digest(name, secret)) in self._verified:
            return self._clients.wait_time(client)
        return max(self._clients.wait_time(client), self._limiter_of(name).wait_time(name or ""))

    def record_failure(self, client: str, name: str | None) -> None:
        """Count wrong credentials."""
        self._clients.take(client)
        self._limiter_of(name).take(name or "")

    def record_success(self, client: str, name: str | None, secret: str) -> None:
        """Remember right credentials."""
        key = (client, _digest(name, secret))
        self._verified[key] = None
        self._verified.move_to_end(key)
        if len(self._verified) > _MAX_CLIENTS:
            self._verified.popitem(last=False)

    def _limiter_of(self, name: str | None) -> RateLimiter:
        return self._tokens if name is None else self._names


def _digest(name: str | None, secret: str) -> bytes:
    return hashlib.sha256(repr((name, secret)).encode()).digest()

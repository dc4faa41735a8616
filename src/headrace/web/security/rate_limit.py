"""How much one client may ask for: requests in a second, bytes in a body."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable

_CLIENTS = 10_000
_TRIES, _TRIES_AT_ONCE = 0.5, 10.0  # wrong passwords in a second, and after a rest
_TOKENS, _TOKENS_AT_ONCE = 2.0, 20.0  # wrong tokens: they have no names, so all that anybody tries are counted together


class RateLimiter:
    """A token bucket for each client; the longest-unseen are forgotten when there are too many."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = 1 / rate
        self._burst = burst
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, client: str) -> float:
        """Take one for this client; 0.0, or the seconds after which there will be one."""
        late = self.late(client)
        if late <= 0:
            self._full_at[client] = max(self._full_at.get(client, 0.0), self._clock()) + self._every
            self._full_at.move_to_end(client)
            if len(self._full_at) > _CLIENTS:
                self._full_at.popitem(last=False)
        return late

    def late(self, client: str) -> float:
        """The same, and nothing is taken."""
        now = self._clock()
        full_at = max(self._full_at.get(client, 0.0), now)
        return max(full_at + self._every - (now + self._burst * self._every), 0.0)


class LoginAttempts:
    """Wrong passwords and tokens, slowed down for each client, and for each name whatever the client's address is.

    A client may be able to make its address up. Credentials that were right before from the same address are not held
    up by what others try in the same name.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = RateLimiter(_TRIES, _TRIES_AT_ONCE, clock)
        self._names = RateLimiter(_TRIES, _TRIES_AT_ONCE, clock)
        self._tokens = RateLimiter(_TOKENS, _TOKENS_AT_ONCE, clock)
        self._proven: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def late(self, client: str, name: str | None, secret: str) -> float:
        """The seconds to wait before these are looked at. `name` is None of a token.

        To look, and then to hold up wrong ones alone, would answer every guess.
        """
        if (client, _digest(name, secret)) in self._proven:
            return self._clients.late(client)
        return max(self._clients.late(client), self._of_name(name).late(name or ""))

    def wrong(self, client: str, name: str | None) -> None:
        """Count credentials that were wrong."""
        self._clients.wait(client)
        self._of_name(name).wait(name or "")

    def right(self, client: str, name: str | None, secret: str) -> None:
        """Note that these were right."""
        known = (client, _digest(name, secret))
        self._proven[known] = None
        self._proven.move_to_end(known)
        if len(self._proven) > _CLIENTS:
            self._proven.popitem(last=False)

    def _of_name(self, name: str | None) -> RateLimiter:
        return self._tokens if name is None else self._names


def _digest(name: str | None, secret: str) -> bytes:
    return hashlib.sha256(repr((name, secret)).encode()).digest()

"""When an idle worker need not read the store: a startable job rings the bell, or the last claim gave its time."""

from __future__ import annotations

import time

from headrace.core.clock import Clock

_LONGEST = 60.0  # seconds, in case a ring was lost
_EXPIRY_HOLDS = 12.0  # seconds that a heartbeat's answer is valid: leases of other workers may be much shorter


class IdleState:
    """What a worker knows of the store since its last exchange. Only `leases_end` is called from another thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = True
        self.next_at: int | None = None  # when more jobs are due, as of the last claim
        self._until = 0.0
        self._next_expiry: int | None = 0  # the first expiry of any worker's lease, as of the last heartbeat
        self._expiry_known_at = 0.0

    def note_ring(self, rung: bool) -> None:
        """Record whether the bell rang. That counts until an exchange begins: there is none during an outage."""
        self._rung |= rung

    def end(self) -> None:
        """An exchange begins. The next one reads the store as well, unless this one succeeds."""
        self._until, self._rung = 0.0, False

    def note_exchange(self, claimed: int, next_at: int | None) -> None:
        """An exchange has claimed so many jobs; more are due at `next_at`."""
        self.next_at = next_at
        self._until = 0.0 if claimed else time.monotonic() + _LONGEST

    @property
    def is_over(self) -> bool:
        """Whether there may be jobs to claim: the bell rang, one is due, or the last claim is long ago."""
        is_due = self.next_at is not None and self.next_at <= self._clock.now()
        return self._rung or is_due or time.monotonic() >= self._until

    def leases_end(self, next_expiry: int | None) -> None:
        """No lease of any worker expires before this time, except those given since the last heartbeat."""
        self._next_expiry, self._expiry_known_at = next_expiry, time.monotonic()

    def is_time_to_reap(self) -> bool:
        """Whether a lease may have expired: its time has come, or the heartbeat's answer is too old."""
        if self._next_expiry is not None and self._next_expiry <= self._clock.now():
            return True
        is_old = time.monotonic() - self._expiry_known_at > _EXPIRY_HOLDS
        if is_old:
            self._expiry_known_at = time.monotonic()
        return is_old

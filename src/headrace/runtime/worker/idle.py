"""When an idle worker may leave the store alone. Whatever lets a job start rings, or was told with the last claim."""

from __future__ import annotations

import time

from headrace.core.clock import Clock

_LONGEST = 60.0  # seconds, in case a ring was lost
_EXPIRY_HOLDS = 12.0  # seconds that a heartbeat's word holds: another worker's leases may be much shorter than ours


class IdleState:
    """What a worker knows of the store since its last turn. Only `leases_end` is called by another thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = True
        self.next_at: int | None = None  # when the store has more, as far as the last claim could tell
        self._until = 0.0
        self._next_expiry: int | None = 0  # of the first lease of any worker, as of the last heartbeat
        self._expiry_told_at = 0.0

    def heard(self, rung: bool) -> None:
        """Whether somebody rang. It counts until a turn begins: during an outage there is none."""
        self._rung |= rung

    def end(self) -> None:
        """A turn begins. Ask at the next one, whatever becomes of this one."""
        self._until, self._rung = 0.0, False

    def turned(self, claimed: int, next_at: int | None) -> None:
        """A turn has claimed so many jobs, and more are due then."""
        self.next_at = next_at
        self._until = 0.0 if claimed else time.monotonic() + _LONGEST

    @property
    def is_over(self) -> bool:
        """Whether there may be something to claim: somebody rang, its time has come, or it was long ago."""
        is_due = self.next_at is not None and self.next_at <= self._clock.now()
        return self._rung or is_due or time.monotonic() >= self._until

    def leases_end(self, next_expiry: int | None) -> None:
        """No lease of any worker ends before this moment, unless it was given since the last heartbeat."""
        self._next_expiry, self._expiry_told_at = next_expiry, time.monotonic()

    def is_time_to_reap(self) -> bool:
        """Whether that moment has come, or the heartbeat told it too long ago. Then it is looked for anew."""
        if self._next_expiry is not None and self._next_expiry <= self._clock.now():
            return True
        is_old = time.monotonic() - self._expiry_told_at > _EXPIRY_HOLDS
        if is_old:
            self._expiry_told_at = time.monotonic()
        return is_old

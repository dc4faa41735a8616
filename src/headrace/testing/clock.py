"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from headrace.core.clock import SystemClock, to_datetime, to_ms
from headrace.core.option_times import check_moment


class VirtualClock:
    """A clock for an app under test: `Headrace("memory://", clock=VirtualClock())`. The test moves it.

    It starts at `start`, or at the present moment, because the code under test may still read the real clock.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._moving = threading.Lock()
        self._now = SystemClock().now() if start is None else check_moment("start", start)
        self._begun = self._now

    def now(self) -> int:
        """Milliseconds since 1970, UTC, as headrace reads it."""
        return self._now

    def advance(self, seconds: float | timedelta) -> None:
        """Move the clock forward; `set` also moves it back."""
        step = to_ms(seconds)
        if step < 0:
            raise ValueError(f"advance({seconds!r}) would go back in time; use set() if that is meant")
        with self._moving:
            self._now += step

    def set(self, moment: datetime) -> None:
        """Jump to a moment, forward or back. It needs a time zone."""
        target = check_moment("moment", moment)
        with self._moving:
            self._now = target

    @property
    def moment(self) -> datetime:
        """The same as now(), as a datetime."""
        moment = to_datetime(self._now)
        assert moment is not None
        return moment

    @property
    def begun(self) -> datetime:
        """When it started."""
        moment = to_datetime(self._begun)
        assert moment is not None
        return moment

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.moment.isoformat()}>"

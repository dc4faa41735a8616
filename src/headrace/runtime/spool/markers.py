"""Empty files beside a spool, by which all its processes agree without opening it.

`waiting` says that jobs may wait; `closing`, that the last of them are being forwarded. Must not know the spool's
tables.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_LONGEST_WAIT = 0.25  # seconds: the longest wait for the spool to be empty
_CHECK_EVERY = 0.001
_FLAGS = os.O_CREAT | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)


class SpoolMarkers:
    """The markers for one store."""

    def __init__(self, folder: Path, name: str) -> None:
        self._waiting = str(folder / f"waiting-{name}")
        self._closing = str(folder / f"closing-{name}")

    @property
    def waiting(self) -> bool:
        """Whether jobs may wait. Checked for every commit: a third of a microsecond."""
        return os.access(self._waiting, os.F_OK)

    def set_waiting(self) -> None:
        os.close(os.open(self._waiting, _FLAGS, 0o600))

    def clear_waiting(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._waiting)

    # Producers that add jobs as fast as they are forwarded would keep the spool in use forever, although the server is
    # back. So before the last ones are sent, all producers wait for a moment.

    def set_closing(self) -> None:
        made = os.open(self._closing, _FLAGS, 0o600)
        os.close(made)
        os.utime(self._closing)

    def clear_closing(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._closing)

    def wait_if_closing(self) -> None:
        """Wait until the spool is empty, if it is about to be. A server that hangs now costs a moment."""
        end = time.monotonic() + _LONGEST_WAIT
        while self.waiting and self._is_closing() and time.monotonic() < end:
            time.sleep(_CHECK_EVERY)

    def _is_closing(self) -> bool:
        try:
            return abs(time.time() - os.stat(self._closing).st_mtime) < _LONGEST_WAIT
        except FileNotFoundError:
            return False

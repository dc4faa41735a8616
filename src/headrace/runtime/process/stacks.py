"""Reads where another thread is."""

from __future__ import annotations

import gc
import sys
from types import FrameType

# https://github.com/python/cpython/issues/106883: before 3.12, a garbage collection inside `sys._current_frames()` can
# block the whole process for ever.
_MAY_BLOCK = sys.version_info < (3, 12)


def frame_of(thread: int | None) -> FrameType | None:
    """The innermost frame of a thread; None if it has ended."""
    if thread is None:
        return None
    collects = _MAY_BLOCK and gc.isenabled()
    if collects:
        gc.disable()
    try:
        return sys._current_frames().get(thread)
    finally:
        if collects:
            gc.enable()

"""Finds out whether this process holds the write lock of a busy file; on Linux only."""

from __future__ import annotations

import os
from pathlib import Path

_LOCKS = Path("/proc/locks")
_WRITING = "120"  # the byte of the shared-memory file that the writer locks


def is_written_here(path: Path) -> bool:
    """Whether a connection of this process has an open write transaction on the file."""
    try:
        held = _LOCKS.read_text().splitlines()
        # stat() only: opening and closing the file would drop the locks of this process.
        inode = os.stat(f"{path}-shm").st_ino
    except OSError:
        return False
    return any(_is_ours(line.split(), str(os.getpid()), str(inode)) for line in held)


def _is_ours(words: list[str], pid: str, inode: str) -> bool:
    """As in `1: POSIX ADVISORY WRITE 4711 08:01:131 120 120`."""
    return words[3:5] == ["WRITE", pid] and words[5].rpartition(":")[2] == inode and words[6] == _WRITING

"""Who holds the lock of a store that is busy, as far as the system tells: Linux does."""

from __future__ import annotations

import os
from pathlib import Path

_LOCKS = Path("/proc/locks")
_WRITING = "120"  # the byte of the index of the log that whoever writes has locked


def is_written_here(path: Path) -> bool:
    """Whether some connection of this very process has begun to write to the file and not ended it."""
    try:
        held = _LOCKS.read_text().splitlines()
        # Its name is enough: to open and close it would drop the locks of this process.
        inode = os.stat(f"{path}-shm").st_ino
    except OSError:
        return False
    return any(_is_ours(line.split(), str(os.getpid()), str(inode)) for line in held)


def _is_ours(words: list[str], pid: str, inode: str) -> bool:
    """As in `1: POSIX ADVISORY WRITE 4711 08:01:131 120 120`."""
    return words[3:5] == ["WRITE", pid] and words[5].rpartition(":")[2] == inode and words[6] == _WRITING

"""Stores without a path: a file in a private folder that is removed when its engine is closed, at the latest at exit.

It is a real file, so that `memory://` behaves like every other store, in threads and in child processes too. Only the
process that created the folder removes it: a forked child that closes its app must not delete its parent's jobs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from headrace.errors import EngineUnavailable


class TemporaryStore:
    """The folder of one store."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-"))
        self._maker = os.getpid()
        self.path = self._folder / "memory.db"
        weakref.finalize(self, _remove, self._folder, self._maker)

    def create_folder(self) -> None:
        """Create the folder again if it is gone: a closed engine may be used once more."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        # Its name was free meanwhile, in a folder where every user may write.
        if hasattr(os, "getuid") and self._folder.lstat().st_uid != os.getuid():
            raise EngineUnavailable(f"{self._folder} was taken by another user; open a new app")

    def remove(self) -> None:
        """Remove the folder with everything in it."""
        _remove(self._folder, self._maker)


def _remove(folder: Path, maker: int) -> None:
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)

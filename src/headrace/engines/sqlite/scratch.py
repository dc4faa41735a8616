"""Stores without a name: a file in a private folder that goes when its engine is closed.

A real file, so that `memory://` behaves like every other store, in threads and in child processes too.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path


def new_path() -> Path:
    """A path in a fresh private folder."""
    return Path(tempfile.mkdtemp(prefix="headrace-")) / "memory.db"


def remove(path: Path) -> None:
    """Remove the folder with everything in it."""
    shutil.rmtree(path.parent, ignore_errors=True)

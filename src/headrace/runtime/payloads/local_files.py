"""A payload store in a local folder, which may be on a file system that several hosts share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path


class LocalFiles:
    """Files in a folder. They and their folders are readable for this user alone."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add_folder(self, folder: str) -> None:
        (self._root / folder).mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, path: str, data: bytes) -> None:
        place = self._root / path
        place.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        for folder in (place.parent, place.parent.parent):  # new names in it, and its own name
            _sync(folder)

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def exists(self, path: str) -> bool:
        try:
            (self._root / path).stat()
        except FileNotFoundError:
            return False
        return True

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._root / folder))
        except FileNotFoundError:
            return []

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            (self._root / path).unlink(missing_ok=True)

    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(OSError):  # it is not empty, or another worker was quicker
            (self._root / folder).rmdir()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

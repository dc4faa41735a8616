"""A payload store in memory: that of a test's own store."""

from __future__ import annotations

from collections.abc import Sequence


class MemoryFiles:
    """Files of one process."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def add_folder(self, folder: str) -> None:
        """There are none."""

    def write(self, path: str, data: bytes) -> None:
        self._files[path] = data

    def read(self, path: str) -> bytes:
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def exists(self, path: str) -> bool:
        return path in self._files

    def list(self, folder: str) -> list[str]:
        below = f"{folder}/"
        return sorted({path.removeprefix(below).partition("/")[0] for path in self._files if path.startswith(below)})

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._files.pop(path, None)

    def remove_folder(self, folder: str) -> None:
        """There are no empty ones."""

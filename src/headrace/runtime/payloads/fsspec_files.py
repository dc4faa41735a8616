"""A payload store of any kind that fsspec knows: s3://, gs://, abfs://, sftp:// and others.

Credentials come from where the file system of the URL looks for them, such as the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fsspec import get_filesystem_class
from fsspec.core import url_to_fs

from headrace.core.text import why
from headrace.core.urls import redacted_url
from headrace.errors import ConfigError

T = TypeVar("T")


class FsspecFiles:
    """Files below the URL of a folder."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: tuple[int, Any, str] | None = None
        try:
            get_filesystem_class(url.partition("://")[0].rpartition("::")[2])
        except (ImportError, ValueError) as error:  # the package of this kind is missing, or there is no such kind
            raise ConfigError(f"payload_store: {redacted_url(url)!r} can't be opened: {why(error)}") from None

    def _open(self) -> tuple[Any, str]:
        """The file system and the folder. A forked child opens its own: it must not share connections or threads."""
        if self._opened is None or self._opened[0] != os.getpid():
            system, root = url_to_fs(self._url, use_listings_cache=False, skip_instance_cache=True)
            self._opened = os.getpid(), system, root.rstrip("/")
        return self._opened[1:]

    def _do(self, act: Callable[[Any, Callable[[str], str]], T]) -> T:
        try:
            system, root = self._open()
            return act(system, lambda path: f"{root}/{path}")
        except OSError:
            raise
        except Exception as error:  # each file system has errors of its own
            raise OSError(why(error)) from error

    def add_folder(self, folder: str) -> None:
        self._do(lambda system, at: system.makedirs(at(folder), exist_ok=True))

    def write(self, path: str, data: bytes) -> None:
        def act(system: Any, at: Callable[[str], str]) -> None:
            place = at(path)
            system.makedirs(place.rpartition("/")[0], exist_ok=True)  # where there are folders
            system.pipe_file(place, data)

        self._do(act)

    def read(self, path: str) -> bytes:
        return self._do(lambda system, at: bytes(system.cat_file(at(path))))

    def exists(self, path: str) -> bool:
        def act(system: Any, at: Callable[[str], str]) -> bool:
            try:
                system.info(at(path))  # exists() takes every error for a no
            except FileNotFoundError:
                return False
            return True

        return self._do(act)

    def list(self, folder: str) -> list[str]:
        def act(system: Any, at: Callable[[str], str]) -> list[str]:
            try:
                found = system.ls(at(folder), detail=False, refresh=True)
            except FileNotFoundError:
                return []
            return sorted({str(path).rstrip("/").rpartition("/")[2] for path in found})

        return self._do(act)

    def delete(self, paths: Sequence[str]) -> None:
        def act(system: Any, at: Callable[[str], str]) -> None:
            for path in paths:
                try:
                    system.rm_file(at(path))
                except FileNotFoundError:
                    continue

        self._do(act)

    def remove_folder(self, folder: str) -> None:
        def act(system: Any, at: Callable[[str], str]) -> None:
            if hasattr(system, "rmdir"):
                system.rmdir(at(folder))

        try:
            self._do(act)
        except OSError:  # it is not empty, or there are no folders
            return

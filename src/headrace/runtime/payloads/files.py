"""The files of a payload store: what headrace needs of a folder or a bucket, and who provides it for a URL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from headrace.core.urls import redacted_url
from headrace.errors import ConfigError


class PayloadFiles(Protocol):
    """Files by paths relative to the payload store. An OSError other than those named is an outage."""

    def add_folder(self, folder: str) -> None:
        """Create a folder and those above it, where there are folders."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Store a new file durably, and its folder, but not those above it: their file system may be away."""
        ...

    def read(self, path: str) -> bytes:
        """The contents; FileNotFoundError if there is no such file."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none if it does not exist."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files. One that does not exist is no error."""
        ...

    def remove_folder(self, folder: str) -> None:
        """Remove a folder if it is empty."""
        ...


def open_files(url: str) -> PayloadFiles:
    """The files at a URL. Nothing is reached until they are used."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "file":
        from headrace.runtime.payloads.local_files import LocalFiles  # deferred, like the other one

        path = unquote(rest) if separator else url
        if not path.startswith("/") or "\0" in path:
            raise ConfigError(f"payload_store: {url!r} should look like file:///absolute/path", value=url)
        return LocalFiles(Path(path))
    try:
        from headrace.runtime.payloads.fsspec_files import FsspecFiles
    except ImportError as error:
        raise ConfigError(
            f"payload_store: {redacted_url(url)!r} needs the package fsspec ({error}); "
            "install it: pip install 'headrace[files]'"
        ) from None
    return FsspecFiles(url)

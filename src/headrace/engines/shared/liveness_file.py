"""Detects dead workers at once: a worker holds a lock on a file, and the kernel releases it when the worker dies.

The file also records, safe from a kill -9, which claims the worker had begun. A stopped process keeps its lock, and so
does one in another container, so no live worker is declared dead; for them the lease decides.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import struct
from pathlib import Path
from types import ModuleType

from headrace.errors import ConfigError

try:
    import fcntl

    locks: ModuleType | None = fcntl
except ImportError:  # Windows has no such locks, so the lease alone decides
    locks = None

_SUFFIX = ".alive"
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_REF = struct.Struct("=q")
# More than any worker holds: it prefetches at most 10,000 claims. Unwritten slots take no disk space.
_SLOTS = 65_536


class LivenessFile:
    """The lock of a living worker, and its list of claims that are begun and not settled."""

    def __init__(self, folder: Path, worker_id: str) -> None:
        self._path = folder / f"{worker_id}{_SUFFIX}"
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
        if locks is not None:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        os.ftruncate(self._fd, _SLOTS * _REF.size)
        self._memory = mmap.mmap(self._fd, _SLOTS * _REF.size)
        self._begun = memoryview(self._memory).cast("q")  # one store for each claim, safe from a kill
        self._free: list[int] = []
        self._unused = iter(range(_SLOTS))

    def begin(self, ref: int) -> int | None:
        # Many threads call this: each operation on shared state is atomic in the interpreter.
        try:
            slot = self._free.pop()
        except IndexError:
            slot = next(self._unused, -1)
        if slot < 0:
            return None
        self._begun[slot] = ref
        return slot

    def ended(self, slot: int, ref: int) -> None:
        self._begun[slot] = -ref

    def settled(self, slot: int) -> None:
        self._begun[slot] = 0
        self._free.append(slot)

    def sees_dead(self) -> bool:
        return bool(find_dead(self._path.parent))

    def close(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self._begun.release()
        self._memory.close()
        os.close(self._fd)


def local_folder(identity: str) -> Path:
    """The folder shared by this host's workers on the store of this identity, if the store itself has no folder."""
    import tempfile  # deferred: only workers need it, and it is slow to import

    owner = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        base = Path(tempfile.gettempdir(), f"headrace-{owner}")
        folder = base / hashlib.sha256(identity.encode()).hexdigest()[:16]
        for path in (base, folder):
            with contextlib.suppress(FileExistsError):
                path.mkdir(0o700)
            _refuse_foreign(path)
    except OSError as error:  # no temporary folder, or one that cannot be written to
        raise ConfigError(f"workers need a temporary folder: {error}; set TMPDIR to one they may write to") from error
    return folder


def _refuse_foreign(path: Path) -> None:
    # Every user can write to the temporary folder: the owner of this one could fake the death of workers.
    found = path.lstat()
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o22 or not path.is_dir()):
        raise ConfigError(f"{path} is not a folder of this user alone; remove it, or set TMPDIR to another place")


def _begun_if_dead(path: Path) -> set[int] | None:
    fd = os.open(path, os.O_RDWR | _NO_LINK)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        data = os.read(fd, os.fstat(fd).st_size)
        if not data:
            return None  # it is just registering
        length = len(data) // _REF.size * _REF.size  # a damaged file must not stop the others from being read
        return {ref for (ref,) in _REF.iter_unpack(data[:length]) if ref}
    except BlockingIOError:
        return None
    finally:
        os.close(fd)


def find_dead(folder: Path) -> dict[str, set[int]]:
    """The workers that died without unregistering, with the claims they had begun; negative: those that had ended."""
    dead: dict[str, set[int]] = {}
    for name in _liveness_files(folder) if locks is not None else ():
        with contextlib.suppress(OSError):
            begun = _begun_if_dead(folder / name)
            if begun is not None:
                dead[name.removesuffix(_SUFFIX)] = begun
    return dead


def _liveness_files(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(_SUFFIX)]
    except FileNotFoundError:  # the folder was removed: the lease alone decides
        return []


def remove_file(folder: Path, worker_id: str) -> None:
    """Remove the file of a dead worker once all of its jobs are recovered."""
    with contextlib.suppress(FileNotFoundError):
        (folder / f"{worker_id}{_SUFFIX}").unlink()

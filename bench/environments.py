"""An environment for each peer, made when it is first needed and kept for the next run. None is ever ours.

Versions are those that were newest at the time; remove the folder to get newer ones.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zlib
from pathlib import Path

from bench.peers import Peer

_PATIENCE = 600.0


class NotInstalled(Exception):
    """A peer that can't be had here, and why."""


class Environments:
    """The folder of all environments."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def python_of(self, peer: Peer) -> str:
        """The interpreter that has this peer, installed if it is not there yet."""
        # Peers with the same packages share one; another Python has others.
        kind = zlib.crc32(" ".join(peer.packages).encode())
        home = self._folder / f"{peer.package}-{sys.version_info.major}.{sys.version_info.minor}-{kind:08x}"
        stamp = home / "installed"
        if not stamp.exists() or not _python(home).exists():
            _make(home, peer)
            stamp.touch()
        return str(_python(home))

    def version_of(self, peer: Peer) -> str:
        """The installed version of a peer that is there."""
        ask = f"import importlib.metadata; print(importlib.metadata.version({peer.package!r}))"
        return _run([self.python_of(peer), "-c", ask]).strip()


def _make(home: Path, peer: Peer) -> None:
    if (home / "pyvenv.cfg").exists():
        shutil.rmtree(home)
    home.parent.mkdir(parents=True, exist_ok=True)
    if uv := shutil.which("uv"):
        _run([uv, "venv", "--quiet", "--python", sys.executable, str(home)])
        _run([uv, "pip", "install", "--quiet", "--python", str(_python(home)), *peer.packages])
    else:
        _run([sys.executable, "-m", "venv", str(home)])
        _run([str(_python(home)), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *peer.packages])


def _python(home: Path) -> Path:
    return home / "bin" / "python"


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{Path(command[0]).name} took more than {_PATIENCE:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise NotInstalled(f"{Path(command[0]).name}: {lines[-1]}")
    return done.stdout

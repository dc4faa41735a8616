"""The facts without which a figure means nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import headrace


def facts(folder: Path, rounds: int, size: str) -> dict[str, str]:
    """The machine, the versions, and how the run was asked for."""
    return {
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}, {cores()} cores",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "disk": _file_system(folder),
        "headrace": headrace.__version__,
        "run": f"{size}, {rounds} round{'s' if rounds != 1 else ''}",
    }


def load() -> str:
    """How busy the machine is with everything that runs on it, in processes waiting for a core."""
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"


def cores() -> int:
    """What this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown processor")


def _file_system(folder: Path) -> str:
    """The kind of the file system with the longest mount point above the folder."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "an unknown file system"
    above = [(len(point), kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    return max(above)[1] if above else "an unknown file system"

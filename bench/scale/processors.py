"""Whose processors they were while something was measured: ours with all our children, or those of others.

Read from /proc; elsewhere than on Linux nothing is known.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path

from msgspec import Struct

_STAT = Path("/proc/stat")
_FIELDS = 8  # of the line of all processors, without the guests, who are counted as users already
_IDLE, _WAITING = 3, 4
_PARENT, _TIMES = 1, slice(11, 15)  # behind the name of a program: its time and that of its ended children


class Usage(Struct, frozen=True):
    """Seconds on processors since the start of the machine: in all, used by anybody, and used by us."""

    all: float
    used: float
    ours: float

    def __sub__(self, earlier: Usage) -> Usage:
        return Usage(self.all - earlier.all, self.used - earlier.used, self.ours - earlier.ours)

    @property
    def others(self) -> float:
        """The share of the machine that others used, the host below a virtual machine included."""
        return max(0.0, self.used - self.ours) / max(self.all, 1e-9)


def usage() -> Usage | None:
    """As it is now; None where it can't be read."""
    if not _STAT.exists():
        return None
    ticks = [int(word) for word in _STAT.read_text().splitlines()[0].split()[1 : _FIELDS + 1]]
    whole, second = sum(ticks), os.sysconf("SC_CLK_TCK")
    return Usage(whole / second, (whole - ticks[_IDLE] - ticks[_WAITING]) / second, _ours() / second)


def wait_for_quiet(percent: float, patience: float) -> None:
    """Until others use at most so much of the machine for a second, or patience ends."""
    deadline = time.monotonic() + patience
    while (before := usage()) and time.monotonic() < deadline:
        time.sleep(1)
        after = usage()
        if after is None or 100 * (after - before).others <= percent:
            return


def _ours() -> int:
    """Of this process and all below it, with those that have ended."""
    children, ticks = defaultdict(list), {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended; its time is with its parent
            continue
        pid = int(folder.name)
        children[int(fields[_PARENT])].append(pid)
        ticks[pid] = sum(map(int, fields[_TIMES]))
    found = [os.getpid()]
    for pid in found:
        found.extend(children[pid])
    return sum(ticks.get(pid, 0) for pid in found)

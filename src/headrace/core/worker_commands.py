"""What an operator wishes of a worker, as a store keeps it: "run", "pause" or "stop", and maybe a level for its logs.

`pause log=INFO,headrace.worker=DEBUG` is a wish for both. What is not wished for stays as it is.
"""

from __future__ import annotations

from typing import Final

_LOG: Final = " log="


def act_of(wish: str) -> str:
    """What it is to do."""
    return wish.partition(_LOG)[0]


def log_level_of(wish: str) -> str | None:
    """The level of its logs, None if none is wished for."""
    return wish.partition(_LOG)[2] or None


def with_log_level(wish: str, level: str) -> str:
    """The same wish, and this level."""
    return f"{act_of(wish)}{_LOG}{level}"

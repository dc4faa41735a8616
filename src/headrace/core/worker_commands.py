"""An operator's command to a worker, as stored: "run", "pause" or "stop", and optionally a log level.

`pause log=INFO,headrace.worker=DEBUG` is a command for both. What it does not name stays as it is.
"""

from __future__ import annotations

from typing import Final

_LOG: Final = " log="


def act_of(command: str) -> str:
    """The command without the log level."""
    return command.partition(_LOG)[0]


def log_level_of(command: str) -> str | None:
    """The log level; None if the command has none."""
    return command.partition(_LOG)[2] or None


def with_log_level(command: str, level: str) -> str:
    """The same command with this log level."""
    return f"{act_of(command)}{_LOG}{level}"

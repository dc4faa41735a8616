"""The one place where a worker process sets up logging: to stderr, for people or as one JSON object a line.

A line that is written while a job runs names the job. Knows nothing of what is logged.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Protocol, cast

import msgspec

from headrace.errors import ConfigError
from headrace.runtime.context import current

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
FIELDS = ("job", "task", "queue", "worker", "attempt")
_plain = logging.Formatter()


class Format(Protocol):
    """All that a handler needs of a logging.Formatter."""

    def format(self, record: logging.LogRecord) -> str: ...


class TextLines:
    """For people: time, level, logger, message, and the job it is about."""

    def format(self, record: logging.LogRecord) -> str:
        about = " ".join(f"{name}={value}" for name, value in job_fields(record).items())
        line = f"{_time(record)} {record.levelname:7} {record.name}: {record.getMessage()}"
        return "\n".join(part for part in (f"{line} [{about}]" if about else line, _trouble(record)) if part)


class JsonLines:
    """For programs: one object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **job_fields(record),
        }
        if trouble := _trouble(record):
            line["exception"] = trouble
        return msgspec.json.encode(line, enc_hook=repr).decode()


def set_up(level: str, form: str, *, insist: bool = False) -> None:
    """Log to stderr, unless the app has set up logging itself and nobody insists."""
    wanted = level.upper()
    if wanted not in LEVELS:
        raise ConfigError(f"log_level: {level!r} is not one of {', '.join(LEVELS)}")
    root = logging.getLogger()
    if root.handlers and not insist:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(cast("logging.Formatter", JsonLines() if form == "json" else TextLines()))
    root.handlers[:] = [handler]
    root.setLevel(wanted)


def job_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Which job the line is about: said by the line itself, or the one that runs here."""
    said = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
    if "job" in said or (running := current.get(None)) is None:
        return said
    return {"job": running.id, "task": running.task, "queue": running.queue, "attempt": running.attempt, **said}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _trouble(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(_plain.formatException(record.exc_info))
    if record.stack_info:
        parts.append(_plain.formatStack(record.stack_info))
    return "\n".join(parts)

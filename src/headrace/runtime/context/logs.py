"""Log lines that name their job, as text or as one JSON object per line.

headrace logs through the standard `logging`, in the tree `headrace.*`, and configures nothing by itself. Every line
that any logger writes while a job runs names that job. Secrets are masked.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TextIO, cast

import msgspec
from msgspec import Struct

from headrace.core.codec.redaction import redact
from headrace.core.codec.secret_names import words_of
from headrace.core.jobs.records import Claim
from headrace.core.tasks.trace_context import correlation_of
from headrace.errors import ConfigError
from headrace.runtime.context.current_job import current
from headrace.runtime.context.trace import ambient

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FIELDS = ("job", "task", "queue", "attempt", "worker", "correlation_id", "trace_id")
NOTHING = "-"
_CONTINUED = "\n  | "
# JSON may hold these as they are: they control a terminal, end a line of some readers, or reorder what is shown.
_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))}
_MAX_INT = 2**63  # the largest integer that any JSON reader accepts
LogFormat = Literal["human", "json"]
_OWN = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))
_plain = logging.Formatter()


class Form(Protocol):
    """The part of logging.Formatter that a handler needs."""

    def format(self, record: logging.LogRecord) -> str: ...


class JobContextFilter:
    """A filter for your own handler: gives records job, task, queue, attempt, worker, correlation_id and trace_id.

    Its format may then use `%(job)s`. A missing value is "-".
    """

    def filter(self, record: logging.LogRecord) -> bool:
        known = fields_of(record)
        for name in FIELDS:
            setattr(record, name, known.get(name, NOTHING))
        return True


class TextFormatter:
    """For people: time, level, logger, message, and the job.

    Further lines of a message are indented and control characters are escaped, so no message can fake a log line or
    control a terminal.
    """

    def __init__(self, secret_words: Iterable[str] | None = ()) -> None:
        self._secret_words = words_of(secret_words)

    def format(self, record: logging.LogRecord) -> str:
        known = {**fields_of(record), **_extra(record, self._secret_words)}
        if record.name.startswith("headrace."):  # the message names the job already
            known.pop("event", None)
        if known.get("correlation_id") == known.get("job"):  # the usual case: leave out the duplicate
            known.pop("correlation_id", None)
        about = " ".join(f"{name}={value}" for name, value in known.items())
        line = f"{_time(record)} {record.levelname:7} {record.name}: {record.getMessage()}"
        parts = (f"{line} [{about}]" if about else line, exception_text(record))
        return _CONTINUED.join(_visible("\n".join(part for part in parts if part)).split("\n"))


class JsonFormatter:
    """For programs: one JSON object per line, including `extra`, with secrets masked and control characters escaped."""

    def __init__(self, secret_words: Iterable[str] | None = ()) -> None:
        self._secret_words = words_of(secret_words)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            **_extra(record, self._secret_words),
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if exception := exception_text(record):
            line["exception"] = exception
        return _encoded(line)


class _Setup(Struct, frozen=True):
    """The logging configuration of this process, for its sandboxes."""

    level: str
    format: LogFormat
    secret_words: tuple[str, ...] | None


_setup: _Setup | None = None


def configure_logs(
    format: LogFormat = "human",
    level: str = "INFO",
    *,
    secret_words: Iterable[str] | None = (),
    stream: TextIO | None = None,
) -> None:
    """Log to stderr or another stream, and replace any earlier configuration.

    `level` applies to all loggers and may name some: "INFO,headrace.worker=DEBUG". In JSON lines, values whose names
    look secret are masked; `secret_words` adds such names, None masks none.
    """
    global _setup  # noqa: PLW0603 - logging itself is global
    levels = levels_in(level)
    if format not in ("human", "json"):
        raise ConfigError(f"log_format: {format!r} is not one of human, json")
    extra_words = None if secret_words is None else tuple(secret_words)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        cast(
            "logging.Formatter",
            JsonFormatter(extra_words) if format == "json" else TextFormatter(extra_words),
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    for name, wanted in levels.items():
        logging.getLogger(name).setLevel(wanted)
    _setup = _Setup(level, format, extra_words)


def configure_unless_done(format: LogFormat, level: str, secret_words: Iterable[str] | None, *, insist: bool) -> None:
    """The same for a command; keeps an app's own configuration unless `insist` is set."""
    levels_in(level)
    if insist or not logging.getLogger().handlers:
        configure_logs(format, level, secret_words=secret_words)


def config_for_child() -> bytes:
    """The logging configuration for a child process; empty if headrace did not configure it."""
    return b"" if _setup is None else msgspec.json.encode(_setup)


def configure_child(config: bytes) -> None:
    """Configure logging as in the parent process, unless the user's code has done so."""
    if config:
        setup = msgspec.json.decode(config, type=_Setup)
        configure_unless_done(setup.format, setup.level, setup.secret_words, insist=False)


class CommandedLevels:
    """Log levels that an operator sets while the process runs."""

    def __init__(self) -> None:
        self._level: str | None = None
        self._before: dict[str, int] = {}  # of the loggers that commands have named

    def follow(self, level: str | None, log_change: Callable[[str, str], None]) -> None:
        """Log at this level, if it has changed."""
        if level is not None and level != self._level:
            self._level = level
            self._set(levels_in(level))
            _tell_sandboxes(level)
            log_change("worker.log_level", f"logs at {level}")

    def _set(self, levels: dict[str, str]) -> None:
        """Set these levels; a logger that an earlier command named, and this one does not, gets its own level back."""
        for name in self._before.keys() - levels:
            logging.getLogger(name).setLevel(self._before[name])
        for name, wanted in levels.items():
            logger = logging.getLogger(name)
            self._before.setdefault(name, logger.level)
            logger.setLevel(wanted)


def _tell_sandboxes(level: str) -> None:
    """Set the level of sandboxes that start later."""
    global _setup  # noqa: PLW0603 - as above
    if _setup is not None:
        _setup = msgspec.structs.replace(_setup, level=level)


def about(claim: Claim, worker: str, event: str | None = None) -> dict[str, Any]:
    """The `extra` of a log line about a job that does not run in the logging thread, and its event type."""
    extra = {
        "job": claim.id,
        "task": claim.task,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "worker": worker,
        "correlation_id": correlation_of(claim.metadata, claim.id),
    }
    if event is not None:
        extra["event"] = event
    return extra


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The job of a log line: named by the line itself, or the one that runs here."""
    fields = {name: value for name in FIELDS if (value := getattr(record, name, NOTHING)) != NOTHING}
    trace_context = ambient.get()
    if trace_context is not None and trace_context.traceparent:
        fields.setdefault("trace_id", trace_context.traceparent.split("-")[1])
    job = current.get(None)
    if job is not None and "job" not in fields:
        own = {"job": job.id, "task": job.task, "queue": job.queue, "attempt": job.attempt, "worker": job.worker}
        fields = {**own, "correlation_id": job.correlation_id, **fields}
    if trace_context is not None and trace_context.correlation:
        fields.setdefault("correlation_id", trace_context.correlation)
    return {name: fields[name] for name in FIELDS if name in fields}


def extra_of(record: logging.LogRecord) -> dict[str, Any]:
    """The `extra` of a record, besides the fields of its job."""
    return {name: value for name, value in vars(record).items() if name not in _OWN and name not in FIELDS}


def _extra(record: logging.LogRecord, secret_words: frozenset[str]) -> dict[str, Any]:
    """The `extra` of a record, with secrets masked."""
    given = extra_of(record)
    return cast("dict[str, Any]", redact(given, frozenset(), secret_words)) if given else {}


def _encoded(line: dict[str, Any]) -> str:
    try:
        encoded = msgspec.json.encode(line, enc_hook=repr)
    except (TypeError, ValueError, RecursionError):  # a value that JSON can't hold must not lose the line
        encoded = msgspec.json.encode({name: _harmless(value) for name, value in line.items()})
    return encoded.decode().translate(_CONTROLS)


def _harmless(value: Any) -> Any:
    if isinstance(value, int) and abs(value) < _MAX_INT:
        return value
    text = value if isinstance(value, str) else repr(value)
    return text.encode("utf-8", "backslashreplace").decode()


def levels_in(text: str) -> dict[str, str]:
    """The level of each logger named in "INFO,headrace.worker=DEBUG"; the level without a name is the root's."""
    found = {"": "INFO"}
    for part in text.split(","):
        name, _, level = part.strip().rpartition("=")
        if level.strip().upper() not in LEVELS:
            raise ConfigError(f"log_level: {part.strip()!r} is not one of {', '.join(LEVELS)}, or LOGGER=LEVEL")
        found[name.strip()] = level.strip().upper()
    return found


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def exception_text(record: logging.LogRecord) -> str:
    """The traceback and the stack of a record; empty if it has none."""
    parts = []
    if record.exc_info:
        parts.append(_plain.formatException(record.exc_info))
    if record.stack_info:
        parts.append(_plain.formatStack(record.stack_info))
    return "\n".join(parts)

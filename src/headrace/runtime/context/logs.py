"""Lines of a log that tell which job they are about, for people or as one JSON object a line.

headrace logs by the standard `logging`, in the tree `headrace.*`, and sets nothing up unless it is asked to. Whatever
any logger writes while a job runs is about that job. Knows nothing of what is logged, but not to show secrets.
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
_LONGEST_INT = 2**63  # what any reader of JSON takes
LogFormat = Literal["human", "json"]
_OWN = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))
_plain = logging.Formatter()


class Form(Protocol):
    """All that a handler needs of a logging.Formatter."""

    def format(self, record: logging.LogRecord) -> str: ...


class JobContextFilter:
    """A filter for a handler of yours: gives each record job, task, queue, attempt, worker, correlation_id, trace_id.

    Then `%(job)s` may stand in its format. What there is nothing to say of is "-".
    """

    def filter(self, record: logging.LogRecord) -> bool:
        known = fields_of(record)
        for name in FIELDS:
            setattr(record, name, known.get(name, NOTHING))
        return True


class TextFormatter:
    """For people: time, level, logger, message, and the job it is about.

    What is told over several lines is indented from the second on, and control characters are made visible: no message
    can pose as a line of its own, or steer a terminal.
    """

    def __init__(self, secret_words: Iterable[str] | None = ()) -> None:
        self._words = words_of(secret_words)

    def format(self, record: logging.LogRecord) -> str:
        known = {**fields_of(record), **_extra(record, self._words)}
        if record.name.startswith("headrace."):  # the message says it in words
            known.pop("event", None)
        if known.get("correlation_id") == known.get("job"):  # as most of the time, and nobody wants to read it twice
            known.pop("correlation_id", None)
        about = " ".join(f"{name}={value}" for name, value in known.items())
        line = f"{_time(record)} {record.levelname:7} {record.name}: {record.getMessage()}"
        parts = (f"{line} [{about}]" if about else line, _trouble(record))
        return _CONTINUED.join(_visible("\n".join(part for part in parts if part)).split("\n"))


class JsonFormatter:
    """For programs: one object a line. What a line says beyond its message (`extra`) is in it, secrets starred out."""

    def __init__(self, secret_words: Iterable[str] | None = ()) -> None:
        self._words = words_of(secret_words)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            **_extra(record, self._words),
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if trouble := _trouble(record):
            line["exception"] = trouble
        return _encoded(line)


class _Setup(Struct, frozen=True):
    """How logging was set up here, for sandboxes to do the same."""

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
    """Log to stderr, or to another stream, in place of whatever was set up before.

    `level` is one for all, and may name others for parts: "INFO,headrace.worker=DEBUG". In the JSON of a line, values
    whose names sound like secrets are starred out; `secret_words` are more such names, None trusts them all.
    """
    global _setup  # noqa: PLW0603 - logging itself is global
    levels = levels_in(level)
    if format not in ("human", "json"):
        raise ConfigError(f"log_format: {format!r} is not one of human, json")
    words = None if secret_words is None else tuple(secret_words)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(cast("logging.Formatter", JsonFormatter(words) if format == "json" else TextFormatter(words)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    for name, wanted in levels.items():
        logging.getLogger(name).setLevel(wanted)
    _setup = _Setup(level, format, words)


def configure_unless_done(format: LogFormat, level: str, secret_words: Iterable[str] | None, *, insist: bool) -> None:
    """The same for a command, which respects what an app has set up itself unless somebody insists."""
    levels_in(level)
    if insist or not logging.getLogger().handlers:
        configure_logs(format, level, secret_words=secret_words)


def handed_on() -> bytes:
    """How logging was set up here, for a process that is about to begin; empty if it was not by us."""
    return b"" if _setup is None else msgspec.json.encode(_setup)


def take_over(handed: bytes) -> None:
    """Set logging up as in the process that handed this on, unless the user's code has done so meanwhile."""
    if handed:
        setup = msgspec.json.decode(handed, type=_Setup)
        configure_unless_done(setup.format, setup.level, setup.secret_words, insist=False)


class CommandedLevels:
    """The levels that an operator wishes for while the process runs."""

    def __init__(self) -> None:
        self._level: str | None = None

    def follow(self, level: str | None, say: Callable[[str, str], None]) -> None:
        """Log at this level, if it is another one than wished for before."""
        if level is not None and level != self._level:
            self._level = level
            _set_levels(level)
            say("worker.log_level", f"logs at {level}")


def _set_levels(level: str) -> None:
    """Change levels, also for the sandboxes that are started from now on."""
    global _setup  # noqa: PLW0603 - as above
    for name, wanted in levels_in(level).items():
        logging.getLogger(name).setLevel(wanted)
    if _setup is not None:
        _setup = msgspec.structs.replace(_setup, level=level)


def about(claim: Claim, worker: str, event: str | None = None) -> dict[str, Any]:
    """The `extra` of a line about a job that does not run where the line is written, and of the event it tells of."""
    told = {
        "job": claim.id,
        "task": claim.task,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "worker": worker,
        "correlation_id": correlation_of(claim.metadata, claim.id),
    }
    if event is not None:
        told["event"] = event
    return told


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Which job the line is about: said by the line itself, or the one that runs here."""
    said = {name: value for name in FIELDS if (value := getattr(record, name, NOTHING)) != NOTHING}
    trace_context = ambient.get()
    if trace_context is not None and trace_context.traceparent:
        said.setdefault("trace_id", trace_context.traceparent.split("-")[1])
    job = current.get(None)
    if job is not None and "job" not in said:
        here = {"job": job.id, "task": job.task, "queue": job.queue, "attempt": job.attempt, "worker": job.worker}
        said = {**here, "correlation_id": job.correlation_id, **said}
    if trace_context is not None and trace_context.correlation:
        said.setdefault("correlation_id", trace_context.correlation)
    return {name: said[name] for name in FIELDS if name in said}


def _extra(record: logging.LogRecord, words: frozenset[str]) -> dict[str, Any]:
    """What the line says beyond its message, as it may be shown."""
    given = {name: value for name, value in vars(record).items() if name not in _OWN and name not in FIELDS}
    return cast("dict[str, Any]", redact(given, frozenset(), words)) if given else {}


def _encoded(line: dict[str, Any]) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError):  # a value that no JSON holds must not cost the line
        return msgspec.json.encode({name: _harmless(value) for name, value in line.items()}).decode()


def _harmless(value: Any) -> Any:
    if isinstance(value, int) and abs(value) < _LONGEST_INT:
        return value
    text = value if isinstance(value, str) else repr(value)
    return text.encode("utf-8", "backslashreplace").decode()


def levels_in(text: str) -> dict[str, str]:
    """The level of each logger that is named in "INFO,headrace.worker=DEBUG"; the one without a name is the root's."""
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


def _trouble(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(_plain.formatException(record.exc_info))
    if record.stack_info:
        parts.append(_plain.formatStack(record.stack_info))
    return "\n".join(parts)

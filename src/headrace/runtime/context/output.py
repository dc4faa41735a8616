"""Keeps what a task with `keep_logs` logs and prints as lines of its job's log.

A handler of the root logger and a stand-in for `sys.stdout` pass on what is written in the context of such a job. The
first of these jobs puts them in place. They stay: removing a handler while another thread logs can cost a line.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Self, TextIO, cast

from headrace.core.codec import codec
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.context.current_job import JobContext, current
from headrace.runtime.context.logs import exception_text, extra_of

MAX_LINES = 10_000  # of one run: a loop that prints must not fill the worker's memory and the store
_MAX_UNENDED = 10_000  # characters that wait for the end of their line
_OWN_LOGGERS = "headrace."


class JobOutput:
    """The output of one run. Threads of the job may write at the same time."""

    def __init__(self, job: JobContext, mask: Callable[[str], str]) -> None:
        self.job = job
        self._mask = mask
        self._lock = threading.Lock()
        self._unended = ""
        self._kept = 0
        self._is_over = False

    def __enter__(self) -> Self:
        _put_in_place()
        self._token = _output.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _output.reset(self._token)
        self.write("\n")
        self._is_over = True

    def write(self, text: str) -> None:
        """Printed text: a line is kept when it ends, or is long. Blank lines are not kept."""
        with self._lock:
            *lines, self._unended = (self._unended + text).split("\n")
            if len(self._unended) > _MAX_UNENDED:
                lines.append(self._unended)
                self._unended = ""
        for line in lines:
            if line.strip():
                self.keep("info", line.rstrip("\r"), {})

    def keep(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Keep a line, unless the run is over or has written too many."""
        with self._lock:
            self._kept += 1
            number = self._kept
        if self._is_over or number > MAX_LINES + 1:
            return
        if number > MAX_LINES:
            self.job.add_line("warning", f"further output of this run is not kept: it has {MAX_LINES:,} lines", None)
            return
        shown = {name: self._mask(value) if isinstance(value, str) else value for name, value in fields.items()}
        self.job.add_line(level, self._mask(message), _encoded(shown) if shown else None)


_output: ContextVar[JobOutput | None] = ContextVar("headrace_output", default=None)


def _current_output() -> JobOutput | None:
    """The output of the job that runs here. A job that another one runs in a test has its own, or none."""
    output = _output.get()
    return output if output is not None and output.job is current.get(None) else None


class _OutputHandler(logging.Handler):
    """Keeps log records of the job that runs here."""

    def emit(self, record: logging.LogRecord) -> None:
        output = _current_output()
        if output is not None and not record.name.startswith(_OWN_LOGGERS):
            try:
                message = "\n".join(part for part in (record.getMessage(), exception_text(record)) if part)
                output.keep(_level_of(record.levelno), message, {"logger": record.name, **extra_of(record)})
            except Exception:
                self.handleError(record)
        # Python shows a warning that has no handler. This handler must not hide it.
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and self._is_alone(record.name):
            last.handle(record)

    def _is_alone(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True


class _CopiedStdout:
    """Stands for `sys.stdout`: writes to it, and copies what a job prints."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        output = _current_output()
        if output is None:
            return self._stream.write(text)
        token = _output.set(None)  # another stand-in may be behind this one
        try:
            written = self._stream.write(text)
        finally:
            _output.reset(token)
        output.write(text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_handler = _OutputHandler()


def _put_in_place() -> None:
    """Again for each run: a logging setup replaces handlers, and a test replaces `sys.stdout`."""
    root = logging.getLogger()
    if _handler not in root.handlers:
        root.addHandler(_handler)
    if sys.stdout is not None and not isinstance(sys.stdout, _CopiedStdout):
        sys.stdout = cast("TextIO", _CopiedStdout(sys.stdout))


def _level_of(number: int) -> str:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"


def _encoded(fields: Mapping[str, Any]) -> str:
    try:
        return codec.encode(dict(fields))
    except InvalidJob:  # a value that JSON can't hold must not lose the line
        return codec.encode({name: value if isinstance(value, str) else short(value) for name, value in fields.items()})

"""The fingerprint of a failure: the task, the error and where it was raised, without the variable parts.

Pure: a text in, a short text out. Dead letters store it, so a change here separates old records from new ones.
"""

from __future__ import annotations

import re

from headrace.core.jobs.records import ErrorInfo

WORKER_LOST, CRASH_LOOP = "worker_lost", "crash_loop"
_LENGTH = 16
_MAX_MESSAGE_CHARS = 2000  # of a message; the rest seldom distinguishes two kinds
_VARYING = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+"), "<url>"),
    (re.compile(r"[^\s'\"@<>]+@[^\s'\"@<>]+"), "<address>"),
    (re.compile(r"'[^'\n]*'|\"[^\"\n]*\""), "<text>"),
    (re.compile(r"(?:[A-Za-z]:)?(?:[/\\][^\s/\\:,;'\"]+){2,}"), "<path>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "<n>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b"), "<n>"),
    (re.compile(r"[0-9]+(?:[.,:][0-9]+)*"), "<n>"),
)
_FRAME = re.compile(r'^ *File "([^"\n]+)", line \d+, in (\S+)', re.MULTILINE)
_SEPARATOR = re.compile(r"[/\\]")
_FOREIGN = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3[^/\\]*|headrace[/\\]runtime)[/\\]|^<")


def fingerprint(task: str, error: ErrorInfo | None, reason: str) -> str:
    """Sixteen hexadecimal digits, the same for failures that belong together."""
    if error is None:
        return _digest(task, reason)
    return _digest(task, error.type, steady(error.message), own_frame(error.traceback))


def fingerprint_of_lost(task: str, reason: str = WORKER_LOST) -> str:
    """The fingerprint of a job whose worker died."""
    return _digest(task, reason)


def steady(message: str) -> str:
    """The message without numbers, ids, quoted texts, paths and addresses."""
    text = message[:_MAX_MESSAGE_CHARS]
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return " ".join(text.split())


def own_frame(traceback: str) -> str:
    """File and function of the innermost frame outside of libraries, without the line, which every edit moves."""
    frames = [frame for frame in _FRAME.findall(traceback) if not _FOREIGN.search(frame[0])]
    if not frames:
        return ""
    path, function = frames[-1]
    return f"{_SEPARATOR.split(path)[-1]}:{function}"


def _digest(*parts: str) -> str:
    from hashlib import sha1  # deferred: only a job that fails for good needs it

    text = "\0".join(parts)
    return sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:_LENGTH]

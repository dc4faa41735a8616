"""By what failures are known to be of one kind: the task, the error and where it was raised, without what varies.

Pure: a text in, a short text out. It is stored with dead letters, so a change here parts old records from new ones.
"""

from __future__ import annotations

import re

from headrace.core.jobs.records import ErrorInfo

WORKER_LOST, CRASH_LOOP = "worker_lost", "crash_loop"
_LENGTH = 16
_LONGEST = 2000  # of a message; what is behind it seldom tells one kind from another
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
    """Sixteen hexadecimal digits, the same for failures that one would look into together."""
    if error is None:
        return _digest(task, reason)
    return _digest(task, error.type, steady(error.message), own_frame(error.traceback))


def fingerprint_of_lost(task: str, reason: str = WORKER_LOST) -> str:
    """That of a job whose worker died. The Redis engine makes it by itself: see `reap.lua`."""
    return _digest(task, reason)


def steady(message: str) -> str:
    """The message with numbers, ids, quoted texts, paths and addresses taken out."""
    told = message[:_LONGEST]
    for pattern, name in _VARYING:
        told = pattern.sub(name, told)
    return " ".join(told.split())


def own_frame(traceback: str) -> str:
    """File and function of the innermost frame that is of no library, without its line, which every edit moves."""
    frames = [frame for frame in _FRAME.findall(traceback) if not _FOREIGN.search(frame[0])]
    if not frames:
        return ""
    path, function = frames[-1]
    return f"{_SEPARATOR.split(path)[-1]}:{function}"


def _digest(*parts: str) -> str:
    from hashlib import sha1  # deferred: only a job that fails for good needs it

    text = "\0".join(parts)
    return sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:_LENGTH]

"""A line of a job's own log."""

from __future__ import annotations

from headrace.core.jobs.records import Claim, JobNote

_MAX_CHARS = 100_000
LEVELS = ("debug", "info", "warning", "error")


def log_line(claim: Claim, now: int, level: str, message: object, fields: str | None) -> JobNote:
    """The note that adds this line. The fields are encoded."""
    return JobNote(claim.id, claim.version, now, level=level, message=_clean(message), fields=fields)


def _clean(message: object) -> str:
    # SQLite ends a text at a NUL in places; lone surrogates have no UTF-8.
    text = str(message)
    if len(text) > _MAX_CHARS:
        text = f"{text[: _MAX_CHARS - 1]}…"
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()

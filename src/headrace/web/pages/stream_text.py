"""The newest part of a job's stream as the page of the job shows it: one text for each run, secrets redacted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from headrace.app.app import Headrace
from headrace.core.events.stream import Chunk
from headrace.errors import CorruptPayload
from headrace.runtime.jobs.job import Job
from headrace.web.pages.formatting import plain_json

_LINES = 50  # stored lines that are read
_MAX_CHARS = 20_000  # characters that are shown


class RunText(Struct, frozen=True):
    """What one run streamed. `is_cut` says that there is more before it."""

    attempt: int
    text: str
    is_cut: bool


def stream_texts(app: Headrace, job: Job[Any]) -> list[RunText]:
    """The texts of the newest runs, oldest first; none if the job has streamed nothing."""
    try:
        chunks = app.services.stream_of(job.row).newest(_LINES)
    except CorruptPayload as error:
        return [RunText(job.attempt, str(error), False)]
    runs: list[list[Chunk]] = []
    for chunk in chunks:
        if chunk.number == 1 or not runs:
            runs.append([])
        runs[-1].append(chunk)
    shown, left = list[RunText](), _MAX_CHARS
    for run in reversed(runs):
        text = _text_of(run, job)
        shown.append(RunText(run[0].attempt, text[-left:], len(text) > left or run[0].number > 1))
        left -= len(text)
        if left <= 0:
            break
    return shown[::-1]


def _text_of(chunks: Sequence[Chunk], job: Job[Any]) -> str:
    """Texts continue each other; data is a line of JSON."""
    parts: list[str] = []
    for chunk in chunks:
        if isinstance(chunk.data, str):
            parts.append(chunk.data)
            continue
        begins_line = not parts or parts[-1].endswith("\n")
        parts.append(f"{'' if begins_line else chr(10)}{plain_json(job.redacted(chunk.data), indent=0)}\n")
    return "".join(parts)

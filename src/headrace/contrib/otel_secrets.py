"""Keeps the secrets of a job out of what is told about its errors.

Whatever of its arguments would be starred out where a job is shown is starred out wherever it stands in the text of an
error: a message likes to quote what it complains of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from headrace import Headrace
from headrace.core.model import Claim
from headrace.core.redact import MASK
from headrace.errors import HeadraceError

_LEAST = 3  # characters: what is shorter stands in any text, and to star it out would only tell it


class Veil(Struct, frozen=True):
    """The secrets of one job, longest first."""

    secrets: tuple[str, ...]

    @classmethod
    def of(cls, app: Headrace, claim: Claim) -> Veil:
        job = app.jobs.held(claim)
        try:
            hidden = _hidden([*job.args, job.kwargs], [*job.redacted_call()[0], job.redacted_call()[1]])
            return cls(tuple(sorted({text for text in hidden if len(text) >= _LEAST}, key=len, reverse=True)))
        except HeadraceError:  # its arguments can't be read, so nobody could quote them
            return cls(())

    def over(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        return text


def _hidden(value: Any, shown: Any) -> Iterator[str]:
    """The texts of a value that are starred out in what is shown of it."""
    if shown == MASK and value != MASK:
        yield from _texts(value)
    elif isinstance(value, dict) and isinstance(shown, dict):
        for name, inner in value.items():
            yield from _hidden(inner, shown.get(name))
    elif isinstance(value, list | tuple) and isinstance(shown, list | tuple):
        for inner, seen in zip(value, shown, strict=False):
            yield from _hidden(inner, seen)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _texts(value.values())
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            yield from _texts(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)

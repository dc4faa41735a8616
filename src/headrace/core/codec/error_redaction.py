"""Masks the secrets of a call in its error texts: exception messages often quote argument values.

Whatever is masked in the shown arguments is masked wherever it occurs in a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from headrace.core.codec.redaction import MASK

_MIN_SECRET_CHARS = 4  # characters: a shorter value occurs in any text, and masking it would only reveal it


class ErrorRedactor(Struct, frozen=True):
    """The secrets of one call, longest first."""

    secrets: tuple[str, ...] = ()

    def over(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        return text


def redactor_of(value: Any, shown: Any) -> ErrorRedactor:
    """A redactor for everything that is masked in `shown`, the redacted form of a value."""
    hidden = {text for text in _hidden(value, shown) if len(text) >= _MIN_SECRET_CHARS}
    return ErrorRedactor(tuple(sorted(hidden, key=len, reverse=True)))


def _hidden(value: Any, shown: Any) -> Iterator[str]:
    if isinstance(shown, str) and shown == MASK and value != MASK:
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

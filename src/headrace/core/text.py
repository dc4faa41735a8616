"""How messages show counts, and errors the values they name: briefly, and without trusting them."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Any

_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = _brief.maxlong = 60
_brief.maxlevel = 3


def short(value: Any) -> str:
    """A repr that is short even for a huge value, and works even if the value's own repr fails."""
    try:
        return _brief.repr(value)
    except Exception:  # naming a value in an error must not be a second error
        return f"<{type(value).__name__}>"


def a_kind(value: Any) -> str:
    """`a socket`, `an Order`."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 job`, `1,200 jobs`; with `many` if the plural is another."""
    return f"1 {one}" if count == 1 else f"{count:,} {many or one + 's'}"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The closest of these names."""
    import difflib  # deferred: needed only where something was misspelled

    return next(iter(difflib.get_close_matches(name, list(names), 1)), None)


def why(error: BaseException) -> str:
    """`TypeError: missing 1 required argument`, always on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # as above
        text = ""
    return f"{type(error).__name__}: {text[:160]}"

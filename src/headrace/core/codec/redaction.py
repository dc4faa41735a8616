"""Redaction: masks values under given names, at any depth. Changes nothing in place.

A task declares names, which match as a whole. Words match anywhere in a name: see `secret_names`. A user who edits a
masked value and returns the mask leaves the secret as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from headrace.core.codec.secret_names import looks_secret
from headrace.errors import InvalidJob

MASK = "***"
NO_WORDS: frozenset[str] = frozenset()
# No stored value is deeper. Beyond it, and in a value that contains itself, all is masked.
_MAX_DEPTH = 200
_NESTING = (dict, list, tuple, set, frozenset)


def redact(value: Any, names: frozenset[str], words: frozenset[str] = NO_WORDS) -> Any:
    """A copy of the value with MASK under every dict key, or namedtuple field, that is one of the names.

    A name matches the whole key, in upper or lower case; a word matches a part of it. In a pair, the first item is the
    name of the second, as in a list of headers.
    """
    return _masked(value, _Mask(names, words), 0) if names or words else value


def redact_call(
    parameter_names: Sequence[str] | None,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    names: frozenset[str],
    words: frozenset[str] = NO_WORDS,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, redacted by the names of their parameters and inside their values.

    `parameter_names` are those of the positional parameters in order (`Signature.positional`); a last one
    with a star, as in "*secrets", names all the arguments from its place on.
    """
    if not names and not words:
        return tuple(args), kwargs
    redactor = _Mask(names, words)
    titles = _titles(parameter_names or (), len(args))
    positional = (_under(title, value, redactor, 0) for title, value in zip(titles, args, strict=True))
    return tuple(positional), _masked(kwargs, redactor, 0)


def without_positions(args: Sequence[Any], hidden: Sequence[int]) -> tuple[Any, ...]:
    """The arguments with MASK at these positions; a negative one, such as ~2, stands for all from there on."""
    rest = min((~place for place in hidden if place < 0), default=len(args))
    return tuple(MASK if place in hidden or place >= rest else value for place, value in enumerate(args))


def unmasked(value: Any, shown: Any, original: Any) -> Any:
    """The value, edited from what was shown of the original, with the secrets put back in place of masks.

    InvalidJob if a mask is where nothing was masked: it is unknown which secret is meant.
    """
    if isinstance(value, str) and value == MASK:
        if isinstance(shown, str) and shown == MASK:
            return original
        raise InvalidJob(f"{MASK} stands in a place where no secret was, and can't be put back; write it out")
    if isinstance(value, dict):
        known = shown.keys() & original.keys() if isinstance(shown, dict) and isinstance(original, dict) else ()
        places = ((key, (shown[key], original[key]) if key in known else (None, None)) for key in value)
        return {key: unmasked(value[key], *place) for key, place in places}
    if isinstance(value, list | tuple):
        pairs = list(zip(shown, original, strict=False)) if _are_rows(shown, original) else []
        pairs += [(None, None)] * (len(value) - len(pairs))
        items = [unmasked(item, *place) for item, place in zip(value, pairs, strict=False)]
        return items if isinstance(value, list) else tuple(items)
    return value


def _are_rows(*values: Any) -> bool:
    return all(isinstance(value, list | tuple) for value in values)


class _Mask:
    __slots__ = ("_names", "_words")

    def __init__(self, names: frozenset[str], words: frozenset[str]) -> None:
        self._names = _folded(names)
        self._words = words

    def hides(self, name: Any, value: Any) -> bool:
        if isinstance(name, bytes):
            name = name.decode("utf-8", "replace")
        if not isinstance(name, str):
            return False
        return name.casefold() in self._names or (bool(self._words) and looks_secret(name, value, self._words))


def _titles(parameter_names: Sequence[str], count: int) -> list[str]:
    names = list(parameter_names)
    rest = names.pop().removeprefix("*") if names and names[-1].startswith("*") else ""
    return [*names, *[rest] * (count - len(names))][:count]


@lru_cache(maxsize=256)
def _folded(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)


def _under(name: Any, value: Any, redactor: _Mask, depth: int) -> Any:
    return MASK if redactor.hides(name, value) else _masked(value, redactor, depth + 1)


def _masked(value: Any, redactor: _Mask, depth: int) -> Any:
    if not isinstance(value, _NESTING):
        return value
    if depth > _MAX_DEPTH:
        return MASK
    if isinstance(value, dict):
        return {key: _under(key, item, redactor, depth) for key, item in value.items()}
    if names := getattr(value, "_fields", ()):
        fields = _masked(dict(zip(names, value, strict=True)), redactor, depth + 1)
        return type(value)(*fields.values())
    if isinstance(value, list | tuple) and len(value) == 2 and redactor.hides(*value):
        return (value[0], MASK) if isinstance(value, tuple) else [value[0], MASK]
    kind: Any = next(kind for kind in _NESTING if isinstance(value, kind))
    return kind(_masked(item, redactor, depth + 1) for item in value)

"""Hides secrets before anybody sees them: the values under given names, at any depth. Changes nothing in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

MASK = "***"
# No stored value is deeper. Beyond it, and in a value that contains itself, all is hidden rather than shown.
_MAX_DEPTH = 200
_NESTING = (dict, list, tuple, set, frozenset)


def redact(value: Any, names: frozenset[str]) -> Any:
    """A copy of the value with MASK under every dict key, or namedtuple field, that is one of the names.

    A name matches the whole key, in upper or lower case.
    """
    return _masked(value, _folded(names), 0) if names else value


def redact_call(
    parameter_names: Sequence[str] | None, args: Sequence[Any], kwargs: dict[str, Any], names: frozenset[str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, redacted by the names of their parameters and inside their values.

    `parameter_names` are those of the positional parameters in order (`Signature.positional`); a last one
    with a star, as in "*secrets", names all the arguments from its place on.
    """
    if not names:
        return tuple(args), kwargs
    hidden = _folded(names)
    titles = _titles(parameter_names or (), len(args))
    positional = (
        MASK if title in hidden else _masked(value, hidden, 1) for title, value in zip(titles, args, strict=True)
    )
    return tuple(positional), _masked(kwargs, hidden, 0)


def _titles(parameter_names: Sequence[str], count: int) -> list[str]:
    names = [name.casefold() for name in parameter_names]
    rest = names.pop().removeprefix("*") if names and names[-1].startswith("*") else ""
    return [*names, *[rest] * (count - len(names))][:count]


@lru_cache(maxsize=256)
def _folded(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)


def _masked(value: Any, hidden: frozenset[str], depth: int) -> Any:
    if not isinstance(value, _NESTING):
        return value
    if depth > _MAX_DEPTH:
        return MASK
    if isinstance(value, dict):
        return {
            key: MASK if isinstance(key, str) and key.casefold() in hidden else _masked(item, hidden, depth + 1)
            for key, item in value.items()
        }
    if names := getattr(value, "_fields", ()):
        fields = _masked(dict(zip(names, value, strict=True)), hidden, depth + 1)
        return type(value)(*fields.values())
    kind: Any = next(kind for kind in _NESTING if isinstance(value, kind))
    return kind(_masked(item, hidden, depth + 1) for item in value)

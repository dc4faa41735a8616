"""The current app, and what waits for one: shared tasks may be defined before any app exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.contrib.celery.exceptions import CeleryError

_current: list[Any] = []
_waiting: list[Callable[[Any], object]] = []


def current_app() -> Any:
    """The app that was created last."""
    if not _current:
        raise CeleryError("there is no app yet: create app = Celery(...) first")
    return _current[0]


def has_current() -> bool:
    return bool(_current)


def set_current(app: Any) -> None:
    """Make this the current app, and tell it what has waited for one."""
    _current[:] = [app]
    while _waiting:
        _waiting.pop(0)(app)


def when_current(adopt: Callable[[Any], object]) -> None:
    """Call this with the next app that becomes current."""
    _waiting.append(adopt)

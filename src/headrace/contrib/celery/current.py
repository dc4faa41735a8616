"""The current app, and what waits for one: shared tasks may be defined before any app exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.contrib.celery.exceptions import CeleryError

_current: list[Any] = []
_waiting: list[Callable[[Any], object]] = []


class Proxy:
    """Stands for the object that it finds at each use; a call returns that object."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self.__dict__["_find"] = find

    def __call__(self) -> Any:
        return self.__dict__["_find"]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self(), name, value)

    def __repr__(self) -> str:
        return repr(self())


def _current_app() -> Any:
    """The app that was created last."""
    if not _current:
        raise CeleryError("there is no app yet: create app = Celery(...) first")
    return _current[0]


current_app = Proxy(_current_app)


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

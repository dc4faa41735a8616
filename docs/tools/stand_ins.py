"""Just enough of FastAPI, Flask and Django for the examples to run where these are not installed.

A stand-in shows that the headrace side of an example works. It proves nothing about the framework.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class _Site:
    """A web application: whatever decorates a handler leaves it as it is."""

    def __init__(self, *args: Any, **options: Any) -> None: ...

    def route(self, path: str, **options: Any) -> Callable[[Any], Any]:
        return lambda handler: handler

    get = post = route


class _HTTPError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(status_code)


class _Transaction:
    @staticmethod
    def on_commit(call: Callable[[], Any]) -> None:
        call()


def _nothing(*args: Any, **options: Any) -> None: ...


_MODULES: dict[str, dict[str, Any]] = {
    "fastapi": {"FastAPI": _Site, "HTTPException": _HTTPError},
    "flask": {"Flask": _Site},
    "django": {"setup": _nothing},
    "django.db": {"transaction": _Transaction, "close_old_connections": _nothing},
    "django.http": {"JsonResponse": dict},
}


def install() -> None:
    """Put the missing ones in place."""
    missing = {root for root in ("fastapi", "flask", "django") if importlib.util.find_spec(root) is None}
    for name, members in _MODULES.items():
        if name.partition(".")[0] in missing:
            module = sys.modules[name] = ModuleType(name)
            vars(module).update(members)

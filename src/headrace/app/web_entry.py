"""The door from the app to the surfaces above it, for those who start from an app: `app.asgi()`, `app.run_web()`.

This is the one place where the app names a floor above its own. It does so by name and only when somebody asks, as a
plugin is found: nothing of a surface is loaded, or needed, before, and the app knows no more of it than one function.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from headrace.errors import ConfigError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
ASGI = Callable[[Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

_DOORS = {"asgi": ("headrace.web.asgi", "make"), "web": ("headrace.web.server", "serve")}
_EXTRA = ("starlette", "uvicorn", "jinja2", "prometheus_client", "anyio")


class BackgroundReads(Protocol):
    """What reads the store in threads of its own, for pages."""

    def finish(self) -> None:
        """Wait until no read is under way."""


def asgi_of(app: object, options: dict[str, Any]) -> ASGI:
    """The web surface of this app, to be served or mounted."""
    made: ASGI = _open("asgi")(app, **options)
    return made


def serve_web(app: object, options: dict[str, Any]) -> int:
    """Serve the web surface of this app until a signal ends it; the exit code."""
    code: int = _open("web")(app, **options)
    return code


def _open(name: str) -> Callable[..., Any]:
    module, function = _DOORS[name]
    try:
        door: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise ConfigError(
            f"the web interface needs a package ({error}); install it: pip install 'headrace[web]'"
        ) from None
    return door

"""The entry points from the app to the web: `app.asgi()` and `app.run_web()`.

This is the only place where the app imports a higher layer. It imports it by name and on demand, like a plugin, so the
web packages are not needed before.
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
    """The ASGI app of this app, to serve or mount."""
    made: ASGI = _open("asgi")(app, **options)
    return made


def serve_web(app: object, options: dict[str, Any]) -> int:
    """Serve the web interface until a signal; returns the exit code."""
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

"""The surfaces that an app loads: the web (`app.asgi()`, `app.wsgi()`, `headrace web`) and extensions of settings.

This is the only place where the app imports a higher floor. It imports by name and on demand, so that no program needs
the packages of a surface it does not use.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Protocol

from headrace.core.settings.settings import Settings
from headrace.errors import ConfigError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
ASGI = Callable[[Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_ENTRY_POINTS = {
    "asgi": ("headrace.web.asgi", "make"),
    "wsgi": ("headrace.web.wsgi", "make"),
    "web": ("headrace.web.server", "serve"),
}
_WEB_PACKAGES = ("starlette", "uvicorn", "jinja2", "prometheus_client", "anyio")
_EXTENSIONS = {"otel": "headrace.contrib.otel"}  # setting (also the extra) -> module with `instrument(app)`


class BackgroundReads(Protocol):
    """Reads the store for pages, in its own threads."""

    def finish(self) -> None:
        """Wait until no read is under way."""


def asgi_of(app: object, options: Mapping[str, Any]) -> ASGI:
    """The ASGI app of this app, to serve or mount."""
    made: ASGI = _load_web("asgi")(app, **options)
    return made


def wsgi_of(app: object, options: Mapping[str, Any]) -> WSGI:
    """The WSGI app of this app, to serve or mount."""
    made: WSGI = _load_web("wsgi")(app, **options)
    return made


def serve_web(app: object, options: dict[str, Any]) -> int:
    """Serve the web interface until a signal; returns the exit code."""
    code: int = _load_web("web")(app, **options)
    return code


def _load_web(name: str) -> Callable[..., Any]:
    module, function = _ENTRY_POINTS[name]
    try:
        entry_point: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _WEB_PACKAGES:
            raise
        raise ConfigError(
            f"the web interface needs a package ({error}); install it: pip install 'headrace[web]'"
        ) from None
    return entry_point


def load_extensions(app: object, settings: Settings) -> None:
    """Apply the extensions that the settings enable."""
    for setting, module in _EXTENSIONS.items():
        if getattr(settings, setting):
            _instrument(setting, module, app)


def _instrument(setting: str, module: str, app: object) -> None:
    try:
        importlib.import_module(module).instrument(app)
    except ImportError as error:
        raise ConfigError(
            f"{setting}: it needs packages that are missing ({error}); install them: pip install 'headrace[{setting}]'"
        ) from None

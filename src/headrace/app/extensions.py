"""What settings add to an app from above its floor: surfaces that an app does not know, found by their names."""

from __future__ import annotations

import importlib

from headrace.core.settings.settings import Settings
from headrace.errors import ConfigError

# By the setting that asks for it, which is also the extra that brings what it needs: its module, with a function
# `instrument(app)`. Loaded by name, as the engine that a URL names is: no app depends on one that it does not ask for.
_EXTENSIONS = {"otel": "headrace.contrib.otel"}


def extend(app: object, settings: Settings) -> None:
    """Add to the app what its settings ask for."""
    for setting, module in _EXTENSIONS.items():
        if getattr(settings, setting):
            _load(setting, module, app)


def _load(setting: str, module: str, app: object) -> None:
    try:
        importlib.import_module(module).instrument(app)
    except ImportError as error:
        raise ConfigError(
            f"{setting}: it needs packages that are missing ({error}); install them: pip install 'headrace[{setting}]'"
        ) from None

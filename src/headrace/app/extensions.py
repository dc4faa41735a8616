"""Extensions that settings enable, imported by name because they are above the app's layer."""

from __future__ import annotations

import importlib

from headrace.core.settings.settings import Settings
from headrace.errors import ConfigError

# Setting (also the name of the extra) -> module with a function `instrument(app)`. Imported by name, so that no app
# depends on an extension it does not use.
_EXTENSIONS = {"otel": "headrace.contrib.otel"}


def extend(app: object, settings: Settings) -> None:
    """Apply the extensions that the settings enable."""
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

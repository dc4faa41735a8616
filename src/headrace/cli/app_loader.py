"""Imports the user's app by its name `module:attribute`. Errors name what was sought, where, and the remedy."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import headrace
from headrace.errors import ConfigError

HOW_TO_NAME = (
    'name it with --app module:attribute, HEADRACE_APP, or app = "module:attribute" under [tool.headrace] in '
    "pyproject.toml"
)
_PACKAGE = str(Path(__file__).parents[1])


def load_app(name: str, origin: str) -> headrace.Headrace:
    """Import the module and return its app. `origin` is where the name was set."""
    module_name, _, attribute = name.partition(":")
    _check_name(name, module_name, origin)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = _import(module_name, origin)
    return _attribute(module, attribute) if attribute else _only_app(module)


def _check_name(name: str, module_name: str, origin: str) -> None:
    if module_name.endswith(".py") or "/" in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise ConfigError(f"app {name!r} ({origin}) looks like a file; give the module's name, such as {dotted!r}")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigError(f"app {name!r} ({origin}) is not of the form module:attribute, such as shop.jobs:app")


def _import(module_name: str, origin: str) -> ModuleType:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # a module may print on import; keep that out of stdout
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"there is no module {error.name!r} to take the app from ({origin}); looked in {os.getcwd()} and "
                "the installed packages. Run headrace in the folder that holds it, or set PYTHONPATH"
            ) from error
        raise _import_failure(module_name, error) from error
    except (Exception, SystemExit) as error:  # a user's module may raise anything at all
        raise _import_failure(module_name, error) from error


def _import_failure(module_name: str, error: BaseException) -> ConfigError:
    where = _location_in_user_code(error)
    text = f"{type(error).__name__}: {error}" + (f" ({where})" if where else "")
    return ConfigError(f"importing {module_name!r} failed: {text}; --traceback shows all of it")


def _location_in_user_code(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return ""  # its text has the file and the line
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [
        frame for frame in frames if not frame.filename.startswith((_PACKAGE, "<frozen", importlib.__file__))
    ]
    return f"{user_frames[-1].filename}:{user_frames[-1].lineno}" if user_frames else ""


def _attribute(module: ModuleType, path: str) -> headrace.Headrace:
    try:
        found: Any = functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        raise ConfigError(f"module {module.__name__!r} has no {path!r}; {_candidates(module)}") from None
    app = _app_behind(found)
    if app is None:
        kind = type(found).__name__
        raise ConfigError(f"{module.__name__}:{path} is a {kind}, not a Headrace app; {_candidates(module)}")
    return app


def _only_app(module: ModuleType) -> headrace.Headrace:
    found = _apps_of(module)
    if len({id(app) for app in found.values()}) != 1:
        raise ConfigError(f"{module.__name__!r} has no single app; {_candidates(module)}")
    return next(iter(found.values()))


def _apps_of(module: ModuleType) -> dict[str, headrace.Headrace]:
    found = {name: _app_behind(value) for name, value in vars(module).items()}
    return {name: app for name, app in found.items() if app is not None}


def _app_behind(found: Any) -> headrace.Headrace | None:
    """The app itself, or the one behind another API for it, such as contrib.celery's."""
    if isinstance(found, headrace.Headrace):
        return found
    behind = None if isinstance(found, ModuleType) else getattr(type(found), "headrace", None)
    app = found.headrace if isinstance(behind, property) else None
    return app if isinstance(app, headrace.Headrace) else None


def _candidates(module: ModuleType) -> str:
    names = sorted(_apps_of(module))
    if not names:
        return "it has no app: create one with app = Headrace()"
    return "its apps are " + ", ".join(f"{module.__name__}:{name}" for name in names)

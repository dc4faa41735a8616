"""`app.conf`: Celery's settings. Those that headrace needs are used, those that mean nothing here are kept."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from headrace.contrib.celery.exceptions import CeleryError, refuse
from headrace.core.text import short

_DEFAULTS: dict[str, Any] = {
    "beat_schedule": {},
    "timezone": "UTC",
    "enable_utc": True,
    "task_routes": None,
    "task_default_queue": None,
    "task_default_rate_limit": None,
    "task_default_priority": None,
    "task_ignore_result": False,
    "task_time_limit": None,
    "task_soft_time_limit": None,
    "task_always_eager": False,
    "task_eager_propagates": False,
    "task_serializer": "json",
    "result_serializer": "json",
    "imports": (),
    "include": (),
}
# The names that Celery had before 4.0, of settings that are used here.
_OLD = {
    "celerybeat_schedule": "beat_schedule",
    "celery_timezone": "timezone",
    "celery_routes": "task_routes",
    "celery_default_queue": "task_default_queue",
    "celery_ignore_result": "task_ignore_result",
    "celery_always_eager": "task_always_eager",
    "celery_imports": "imports",
    "celeryd_task_time_limit": "task_time_limit",
    "celeryd_task_soft_time_limit": "task_soft_time_limit",
    "celery_task_serializer": "task_serializer",
}
# The setting that an option of a task follows if it is not set.
_OF_OPTIONS = {
    "queue": "task_default_queue",
    "priority": "task_default_priority",
    "rate_limit": "task_default_rate_limit",
    "ignore_result": "task_ignore_result",
    "time_limit": "task_time_limit",
    "soft_time_limit": "task_soft_time_limit",
}
_JSON = ("json", "application/json")


class Conf:
    """The settings of an app: attributes and keys are the same."""

    def __init__(self) -> None:
        self.__dict__["_values"] = {**_DEFAULTS, "beat_schedule": {}}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][_OLD.get(name.lower(), name)]
        except KeyError:
            raise AttributeError(f"app.conf has no {name!r}; set it first") from None

    def __setattr__(self, name: str, value: Any) -> None:
        key = _OLD.get(name.lower(), name)
        _check(key, value)
        self.__dict__["_values"][key] = value

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    __setitem__ = __setattr__

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__["_values"]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["_values"])

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)

    def update(self, *given: Mapping[str, Any], **named: Any) -> None:
        for values in (*given, named):
            for name, value in values.items():
                setattr(self, name, value)

    def default_of(self, option: str) -> Any:
        """The setting for an option that a task does not set."""
        return getattr(self, _OF_OPTIONS[option]) if option in _OF_OPTIONS else None

    def read(self, source: Any, namespace: str | None = None) -> None:
        """Take the settings of a module, an object, a dict or the dotted name of one."""
        found = _import(source) if isinstance(source, str) else source
        names = found if isinstance(found, Mapping) else dir(found)
        prefix = f"{namespace}_" if namespace else ""
        for name in names:
            if name.startswith("_") or not name.startswith(prefix) or (not prefix and not name.islower()):
                continue
            value = found[name] if isinstance(found, Mapping) else getattr(found, name)
            if not inspect.ismodule(value) and not (inspect.isroutine(value) and not prefix):
                setattr(self, name.removeprefix(prefix).lower(), value)

    def queue_of(self, task: str, args: Any, kwargs: Any, options: Any) -> dict[str, Any]:
        """The options that `task_routes` has for a call."""
        routes = self.task_routes
        for route in routes if isinstance(routes, list | tuple) else [routes]:
            found = _route(route, task, args, kwargs, options)
            if found is not None:
                return {"queue": found} if isinstance(found, str) else dict(found)
        return {}


def _route(route: Any, task: str, args: Any, kwargs: Any, options: Any) -> Any:
    if route is None:
        return None
    if callable(route):
        return route(task, args, kwargs, options, task=None)
    if isinstance(route, str):
        raise refuse(f"task_routes: {route!r}", "give the function itself, not its name")
    pairs = route.items() if isinstance(route, Mapping) else [route] if _is_pair(route) else route
    for pattern, target in pairs:
        if pattern.fullmatch(task) if hasattr(pattern, "fullmatch") else fnmatchcase(task, pattern):
            return target
    return None


def _is_pair(route: Any) -> bool:
    return isinstance(route, tuple) and len(route) == 2 and not isinstance(route[0], tuple)


def _check(name: str, value: Any) -> None:
    if name in ("task_serializer", "result_serializer") and value not in _JSON:
        raise refuse(f"{name}={value!r}", "arguments and results are stored as JSON, with dates, UUIDs and models")
    if name == "accept_content" and any(kind not in _JSON for kind in value):
        raise refuse(f"accept_content={value!r}", "arguments and results are stored as JSON; accept only json")
    if name == "beat_schedule" and not isinstance(value, Mapping):
        raise CeleryError(f"beat_schedule: expected a dict, got {short(value)}")
    if name == "task_annotations" and value:
        raise refuse("task_annotations", "set the options in @app.task(...)")


def _import(name: str) -> Any:
    """The module or object of a dotted name, such as `shop.settings` or `django.conf:settings`."""
    module, _, attribute = name.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise CeleryError(f"config_from_object({name!r}): {error}") from None
    return getattr(found, attribute) if attribute else found

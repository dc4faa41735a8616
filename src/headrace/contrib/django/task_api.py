"""Django's tasks: those of Django 6, else those of the package django-tasks."""

from __future__ import annotations

import importlib
from typing import Any

from django.core.exceptions import ImproperlyConfigured


def _import() -> tuple[str, Any]:
    for name in ("django.tasks", "django_tasks"):
        try:
            return name, importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise ImproperlyConfigured(
        "Django has tasks from 6.0 on; for an older Django install the package: pip install 'headrace[django]'"
    )


ROOT, _tasks = _import()
_base = importlib.import_module(f"{ROOT}.base")
signals: Any = importlib.import_module(f"{ROOT}.signals")

BaseTaskBackend: Any = importlib.import_module(f"{ROOT}.backends.base").BaseTaskBackend
DEFAULT_ALIAS: str = _tasks.DEFAULT_TASK_BACKEND_ALIAS
Task: Any = _base.Task
TaskContext: Any = _base.TaskContext
TaskError: Any = _base.TaskError
TaskResult: Any = _base.TaskResult
Status: Any = _base.TaskResultStatus
task_backends: Any = _tasks.task_backends
_exceptions: Any = importlib.import_module(f"{ROOT}.exceptions")
TaskResultDoesNotExist: Any = _exceptions.TaskResultDoesNotExist
InvalidTask: Any = getattr(_exceptions, "InvalidTask", None) or _exceptions.InvalidTaskError  # the package's name
normalize_json: Any = importlib.import_module(
    "django.utils.json" if ROOT == "django.tasks" else f"{ROOT}.utils"
).normalize_json

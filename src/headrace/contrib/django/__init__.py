"""headrace in a Django project: the backend of `TASKS`, the management command, migrations and checks.

    INSTALLED_APPS = [..., "headrace.contrib.django"]
    TASKS = {"default": {"BACKEND": "headrace.contrib.django.HeadraceBackend"}}

Public: `HeadraceBackend`, `job_options`, `get_app`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["HeadraceBackend", "get_app", "job_options"]


def __getattr__(name: str) -> Any:
    # Deferred: Django imports this package before its settings are ready.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headrace.contrib.django import backend

    return getattr(backend, name)

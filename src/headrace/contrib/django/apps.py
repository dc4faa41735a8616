"""The Django app: creates the tables after `migrate`."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class HeadraceConfig(AppConfig):
    """For `INSTALLED_APPS`."""

    name = "headrace.contrib.django"
    label = "headrace"
    verbose_name = "Background jobs"

    def ready(self) -> None:
        post_migrate.connect(_migrate, sender=self)


def _migrate(sender: Any, using: str, **_: Any) -> None:
    from headrace.contrib.django.backend import headrace_backends

    for backend in headrace_backends():
        backend.migrate(using)

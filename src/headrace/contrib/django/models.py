"""No tables: headrace has its own. Django sends `post_migrate` only to apps with this module.

The one model gives jobs a place in Django's permissions (`headrace.view_job`, `headrace.change_job`) and in the admin.
"""

from __future__ import annotations

from typing import Any

from django.db import models


class _NoRows(models.Manager):
    """There is no table: commands such as dumpdata find no rows and ask for none."""

    def get_queryset(self) -> Any:
        return super().get_queryset().none()


class Job(models.Model):
    """A job of headrace. It has no rows; jobs are found with `get_app().jobs`."""

    id = models.CharField(primary_key=True, max_length=200)

    objects = _NoRows()

    class Meta:
        managed = False
        default_permissions = ("view", "change")
        base_manager_name = "objects"
        verbose_name = "job"

"""A project on one database; the tests name it, and what differs, in the environment."""

from __future__ import annotations

import importlib.util
import json
import os

SECRET_KEY = "of a project that only tests use"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
_BACKPORT = [] if importlib.util.find_spec("django.tasks") else ["django_tasks"]
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    *_BACKPORT,
    "headrace.contrib.django",
    "shop",
]
DATABASES = {"default": json.loads(os.environ["SHOP_DATABASE"])}
TASKS = {
    "default": {
        "BACKEND": "headrace.contrib.django.HeadraceBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": json.loads(os.environ.get("SHOP_OPTIONS", "{}")),
    }
}

"""The project's app for the command line, with the tasks of all installed Django apps.

`manage.py headrace` uses it. By itself: `headrace --app headrace.contrib.django.worker_app:app worker`.
"""

from __future__ import annotations

import os

import django
from django.apps import apps
from django.utils.module_loading import autodiscover_modules

if not apps.ready:
    django.setup()

from headrace.contrib.django.backend import get_app
from headrace.contrib.django.task_api import DEFAULT_ALIAS

autodiscover_modules("tasks")
app = get_app(os.environ.get("HEADRACE_DJANGO_BACKEND", DEFAULT_ALIAS))

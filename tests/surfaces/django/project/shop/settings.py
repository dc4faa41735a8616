"""A project on one database; the tests name it, and what differs, in the environment."""

from __future__ import annotations

import importlib.util
import json
import os

SECRET_KEY = "of a project that only tests use"
USE_TZ = not os.environ.get("SHOP_NAIVE_TIMES")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
_BACKPORT = [] if importlib.util.find_spec("django.tasks") else ["django_tasks"]
_TASKS = "django_tasks" if _BACKPORT else "django.tasks"
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.admin",
    *_BACKPORT,
    "headrace.contrib.django",
    "shop",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "shop.urls"
STATIC_URL = "/static/"
ALLOWED_HOSTS = ["shop.example.com", "testserver"]
DATABASES = {"default": json.loads(os.environ["SHOP_DATABASE"])}
TASKS = {
    "default": {
        "BACKEND": "headrace.contrib.django.HeadraceBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": json.loads(os.environ.get("SHOP_OPTIONS", "{}")),
    },
    "now": {"BACKEND": f"{_TASKS}.backends.immediate.ImmediateBackend"},
}

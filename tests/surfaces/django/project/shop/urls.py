"""The admin, and the dashboard beside it."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("background/", include("headrace.contrib.django.urls")),
]

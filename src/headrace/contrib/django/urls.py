"""The URLs of the dashboard and the REST API, for your `urls.py`.

    path("background/", include("headrace.contrib.django.urls"))

Users log in as everywhere in the project; `headrace.contrib.django.views` says what each may do. `reverse` finds a page
by `headrace:dashboard` and its path, such as `queues`. With several backends in TASKS, mount the view for each:

    re_path(r"^reports/(?P<path>.*)$", dashboard, {"alias": "reports"})
"""

from __future__ import annotations

from django.urls import re_path

from headrace.contrib.django.views import dashboard

__all__ = ["app_name", "urlpatterns"]

app_name = "headrace"
urlpatterns = [
    # Everything below: the dashboard has routes of its own, and answers an unknown one itself.
    re_path(r"^(?P<path>.*)$", dashboard, name="dashboard"),
]

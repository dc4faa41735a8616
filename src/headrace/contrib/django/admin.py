"""Jobs in Django's admin: a list to look at, and the way to the dashboard."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from headrace.contrib.django.backend import get_app
from headrace.contrib.django.models import Job
from headrace.core.jobs.states import State
from headrace.errors import HeadraceError

_PAGE = 100


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    """A list of jobs; there is nothing to add, change or delete here."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return any(request.user.has_perm(f"headrace.{what}_job") for what in ("view", "change"))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        state, cursor = request.GET.get("state") or None, request.GET.get("cursor") or None
        context = {
            **self.admin_site.each_context(request),
            "title": "Jobs",
            "opts": self.model._meta,
            "states": [str(each) for each in State],
            "state": state,
            "dashboard": _dashboard_url(""),
            **_listed(state, cursor),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/headrace/jobs.html", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if (url := _dashboard_url(f"jobs/{object_id}")) is None:
            raise Http404("add headrace.contrib.django.urls to your urls.py to see a job")
        return HttpResponseRedirect(url)


def _listed(state: str | None, cursor: str | None) -> dict[str, Any]:
    filters: dict[str, Any] = {"state": state} if state else {}
    try:
        page = get_app().jobs.find(limit=_PAGE, cursor=cursor, **filters)
    except (HeadraceError, ImproperlyConfigured) as error:
        return {"jobs": [], "next": None, "error": str(error)}
    jobs = [(job, _dashboard_url(f"jobs/{job.id}")) for job in page]
    return {"jobs": jobs, "next": page.cursor, "error": None}


def _dashboard_url(path: str) -> str | None:
    try:
        from headrace.contrib.django.views import dashboard_url  # deferred: it needs the packages of `headrace[web]`
    except ImproperlyConfigured:
        return None
    return dashboard_url(path)

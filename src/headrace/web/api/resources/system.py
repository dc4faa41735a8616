"""The system itself: version, store, settings, and who did what."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from headrace import __version__
from headrace.core.access import Role
from headrace.core.audit import AuditEntry
from headrace.core.health.findings import StoragePart
from headrace.core.urls import redacted_url
from headrace.web.api.routes import Table
from headrace.web.api.schemas import Cursor, Limit
from headrace.web.security.middleware import RequestContext

table = Table("system", "The system itself: version, store, settings, and who did what.")


class System(Struct, frozen=True):
    """What runs here, on which store, with which settings; secrets are starred out."""

    version: str
    url: str
    store: dict[str, Any]
    settings: dict[str, Any]
    origins: dict[str, str]


class Me(Struct, frozen=True):
    """Who is asking, and what they may do."""

    name: str
    role: Role
    read_only: bool


class AuditQuery(Struct, frozen=True):
    """How many entries, and after which."""

    limit: Limit = 50
    cursor: Cursor | None = None


class StorageQuery(Struct, frozen=True):
    """Which tables or keys, by name, and how many."""

    pattern: Annotated[str, Meta(max_length=200, description="`*`, `?` and `[ab]` stand for others.")] = "*"
    limit: Limit = 100


class AuditList(Struct, frozen=True):
    """What was asked for over HTTP, newest first. `cursor` continues after it."""

    entries: list[AuditEntry]
    cursor: str | None


@table.get("/system", role="admin")
def get(visit: RequestContext) -> System:
    """Version, store and settings."""
    app = visit.app
    shown = app.settings.shown()
    return System(__version__, redacted_url(app.engine.url), dict(app.engine.facts()), shown, app.settings_origin)


@table.get("/system/storage", role="admin")
def storage(visit: RequestContext, query: StorageQuery) -> list[StoragePart]:
    """The tables or keys of the store: kind, entries and bytes, never a value."""
    return visit.app.admin.storage(query.pattern, limit=query.limit)


@table.get("/me")
def me(visit: RequestContext) -> Me:
    """Who is asking, and what they may do."""
    return Me(visit.caller.name, visit.caller.role, visit.read_only)


@table.get("/audit", role="admin")
def audit(visit: RequestContext, query: AuditQuery) -> AuditList:
    """Who did what over HTTP, newest first."""
    found = visit.app.audit.list(query.limit + 1, query.cursor)
    shown = found[: query.limit]
    return AuditList(shown, shown[-1].cursor if len(found) > query.limit else None)

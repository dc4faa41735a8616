"""Version, store, settings and the audit trail."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from headrace import __version__
from headrace.core.access import Role
from headrace.core.audit import AuditEntry
from headrace.core.health.findings import StoragePart
from headrace.core.urls import redacted_url
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Cursor, Limit
from headrace.web.security.middleware import RequestContext

table = Table("system", "Version, store, settings and the audit trail.")


class System(Struct, frozen=True):
    """Version, store and settings of this server; secrets are redacted."""

    version: str
    url: str
    store: dict[str, Any]
    settings: dict[str, Any]
    origins: dict[str, str]


class Me(Struct, frozen=True):
    """The caller and its role."""

    name: str
    role: Role
    read_only: bool


class AuditQuery(Struct, frozen=True):
    """The page of entries to return."""

    limit: Limit = 50
    cursor: Cursor | None = None


class StorageQuery(Struct, frozen=True):
    """The pattern of names, and how many to return."""

    pattern: Annotated[str, Meta(max_length=200, description="Supports the wildcards `*`, `?` and `[ab]`.")] = "*"
    limit: Limit = 100


class AuditList(Struct, frozen=True):
    """Audit entries, newest first. `cursor` continues after them."""

    entries: list[AuditEntry]
    cursor: str | None


@table.get("/system", role="admin")
def get(context: RequestContext) -> System:
    """Return version, store and settings."""
    app = context.app
    shown = app.settings.shown()
    return System(
        __version__, redacted_url(app.engine.url), app.engine.maintenance.facts().details, shown, app.settings_origin
    )


@table.get("/system/storage", role="admin")
def storage(context: RequestContext, query: StorageQuery) -> list[StoragePart]:
    """List the tables or keys of the store with kind, entries and bytes, without values."""
    return context.app.admin.storage(query.pattern, limit=query.limit)


@table.get("/me")
def me(context: RequestContext) -> Me:
    """The caller and its role."""
    return Me(context.caller.name, context.caller.role, context.read_only)


@table.get("/audit", role="admin")
def audit(context: RequestContext, query: AuditQuery) -> AuditList:
    """List the audit trail of changes over HTTP, newest first."""
    found = context.app.audit.list(query.limit + 1, query.cursor)
    shown = found[: query.limit]
    return AuditList(shown, shown[-1].cursor if len(found) > query.limit else None)

"""All endpoints, gathered."""

from __future__ import annotations

from starlette.routing import Router

from headrace.web.api import queues
from headrace.web.api.calling import route_of
from headrace.web.api.table import Endpoint, Table

PREFIX = "/api/v1"
TABLES: tuple[Table, ...] = (queues.table,)
ENDPOINTS: tuple[Endpoint, ...] = tuple(endpoint for table in TABLES for endpoint in table)


def router() -> Router:
    return Router([route_of(endpoint) for endpoint in ENDPOINTS])

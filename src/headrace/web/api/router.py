"""All endpoints."""

from __future__ import annotations

import functools

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from headrace.web.api.handler import route_of
from headrace.web.api.openapi import document
from headrace.web.api.resources import (
    alert_channels,
    alerts,
    breakers,
    dead,
    events,
    flows,
    jobs,
    lifecycle,
    metrics,
    questions,
    queues,
    schedules,
    system,
    webhooks,
    worker_protocol,
    workers,
)
from headrace.web.api.route_table import Endpoint, Table

PREFIX = "/api/v1"
TABLES: tuple[Table, ...] = (
    jobs.table,
    questions.table,
    queues.table,
    queues.tasks,
    breakers.table,
    workers.table,
    schedules.table,
    flows.table,
    dead.table,
    lifecycle.table,
    metrics.table,
    alerts.table,
    alert_channels.table,
    events.table,
    webhooks.table,
    system.table,
    worker_protocol.table,
)
ENDPOINTS: tuple[Endpoint, ...] = tuple(endpoint for table in TABLES for endpoint in table)


@functools.cache
def router() -> Router:
    """The routes of all endpoints. Names in a path may contain slashes, so the longest paths come first.

    All apps of a process share them: reading the signatures is the slowest part of creating an app.
    """
    longest_first = sorted(ENDPOINTS, key=lambda endpoint: (-endpoint.path.count("/"), bool(endpoint.path_params)))
    routes = [route_of(endpoint) for endpoint in longest_first]
    for route in routes:
        route.siblings = routes
    return Router([Route("/openapi.json", _openapi), *routes])


async def _openapi(request: Request) -> Response:
    return Response(document(TABLES, request.scope.get("root_path", "")), media_type="application/json")

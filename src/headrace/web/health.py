"""Health checks for load balancers and orchestrators. They need no credentials and return no details."""

from __future__ import annotations

import logging

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headrace.errors import HeadraceError
from headrace.web.security.middleware import visit_of

log = logging.getLogger("headrace.web")


async def healthz(request: Request) -> JSONResponse:
    """Liveness: this process responds."""
    return JSONResponse({"status": "ok"})


async def readyz(request: Request) -> JSONResponse:
    """Readiness: the store responds and has the schema version of this headrace."""
    try:
        await run_in_threadpool(visit_of(request.scope).app.engine.queries.queues)
    except HeadraceError as error:
        log.warning("not ready: %s", error)
        return JSONResponse({"status": "unavailable"}, 503, {"retry-after": "5"})
    return JSONResponse({"status": "ok"})


ROUTES = [Route("/healthz", healthz), Route("/readyz", readyz)]

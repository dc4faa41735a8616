"""Whether this process and its store are well, for load balancers and orchestrators. Open to all, it tells no more."""

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
    """This process answers."""
    return JSONResponse({"status": "ok"})


async def readyz(request: Request) -> JSONResponse:
    """The store answers, and its tables are the ones this version works with."""
    try:
        await run_in_threadpool(visit_of(request.scope).app.engine.queries.queues)
    except HeadraceError as error:
        log.warning("not ready: %s", error)
        return JSONResponse({"status": "unavailable"}, 503, {"retry-after": "5"})
    return JSONResponse({"status": "ok"})


ROUTES = [Route("/healthz", healthz), Route("/readyz", readyz)]

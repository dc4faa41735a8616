"""Health checks, which need no credentials and return no details, and metrics in the Prometheus text format."""

from __future__ import annotations

import logging

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.errors import HeadraceError
from headrace.web.problems import problem_response, refusal_of
from headrace.web.security.middleware import context_of

log = logging.getLogger("headrace.web")


async def healthz(request: Request) -> JSONResponse:
    """Liveness: this process responds."""
    return JSONResponse({"status": "ok"})


async def readyz(request: Request) -> JSONResponse:
    """Readiness: the store responds and has the schema version of this headrace."""
    try:
        await run_in_threadpool(context_of(request.scope).app.engine.queries.rules)
    except HeadraceError as error:
        log.warning("not ready: %s", error)
        return JSONResponse({"status": "unavailable"}, 503, {"retry-after": "5"})
    return JSONResponse({"status": "ok"})


async def metrics(request: Request) -> Response:
    """All metrics; needs the role viewer."""
    context = context_of(request.scope)
    try:
        context.require("viewer")
        accept = request.headers.get("accept", "")
        content_type, text = await run_in_threadpool(context.app.metrics.prometheus, accept)
    except Exception as error:
        return problem_response(refusal_of(error), request.url.path)
    return Response(text, media_type=None, headers={"content-type": content_type})


ROUTES = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]

"""Metrics in the Prometheus text format."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.web.problems import answer, refusal_of
from headrace.web.security.middleware import visit_of


async def _metrics(request: Request) -> Response:
    """All metrics; needs the role viewer."""
    visit = visit_of(request.scope)
    try:
        visit.require("viewer")
        accept = request.headers.get("accept", "")
        kind, text = await run_in_threadpool(visit.app.metrics.prometheus, accept)
    except Exception as error:
        return answer(refusal_of(error), request.url.path)
    return Response(text, media_type=None, headers={"content-type": kind})


ROUTES = [Route("/metrics", _metrics)]

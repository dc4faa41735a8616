"""Circuit breakers at which calls have failed: what the pages show of them, and the button that closes one."""

from __future__ import annotations

from headrace.app.breakers import BreakerStatus
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult


def failed_breakers(request: PageRequest) -> list[BreakerStatus]:
    """The breakers with failures, open ones first."""
    return request.page_cache.shared(request.app.breakers.list)


def _reset(request: PageRequest) -> ActionResult:
    name = request.path_param("breaker")
    request.app.breakers.reset(name)
    return ActionResult(f"Breaker {name} is closed; jobs that it put back run when they are due.", target=name)


ACTIONS = [Action(path="/breakers/{breaker:path}/reset", name="breakers.reset", run=_reset)]

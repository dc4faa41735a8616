"""Circuit breakers at which calls of external services have failed."""

from __future__ import annotations

from headrace.app.breakers import BreakerStatus
from headrace.core.tasks.option_fields import Word
from headrace.web.api.route_table import Table
from headrace.web.security.middleware import RequestContext

table = Table("breakers", "Circuit breakers at which calls of external services have failed.")


@table.get("/breakers")
def find(context: RequestContext) -> list[BreakerStatus]:
    """List the circuit breakers with failures, open ones first. The others are closed."""
    return context.app.breakers.list()


@table.post("/breakers/{breaker}/reset")
def reset(context: RequestContext, breaker: Word) -> None:
    """Close a circuit breaker, as if nothing had failed; 404 if nothing has. Jobs that it put back run when due."""
    context.app.breakers.reset(breaker)

"""Requests to end running jobs: a newer call with the same unique key wants to run.

Such a job stays running under its next version. Its worker finds the request when a renewal or an outcome of the
version that it claimed is refused; it then stops the run, and settles the job as cancelled when the run has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headrace.core.jobs.history_texts import is_cancel_request
from headrace.core.jobs.outcomes import cancel
from headrace.core.jobs.records import Lease, Outcome
from headrace.core.jobs.states import State
from headrace.engines.protocol.core import Queries
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable


class CancelRequest(NamedTuple):
    """The lease that a job has since it is to end, and the reason."""

    lease: Lease
    reason: str


def cancel_requests(queries: Queries, worker: str, lost: Iterable[Lease]) -> dict[Lease, CancelRequest]:
    """The requests among these lost leases of a worker, by lease."""
    by_id = {lease.id: lease for lease in lost}
    if not by_id:
        return {}
    try:
        rows = queries.get(sorted(by_id), light=True)
    except EngineUnavailable:
        return {}  # the jobs end when their leases run out
    return {
        by_id[row.id]: CancelRequest(Lease(row.id, row.version), row.reason or "")
        for row in rows
        if row.state is State.RUNNING
        and (row.worker, row.version) == (worker, by_id[row.id].version + 1)
        and is_cancel_request(row.reason)
    }


def settle_cancelled(engine: Engine, worker: str, refused: Sequence[Outcome], now: int) -> None:
    """Cancel those jobs whose outcome was refused because they were to end."""
    requests = cancel_requests(engine.queries, worker, [outcome.lease for outcome in refused])
    if requests:
        engine.exchange([cancel(request.lease, request.reason, now) for request in requests.values()], None)

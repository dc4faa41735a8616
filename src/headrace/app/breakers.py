"""`app.breakers`: the circuit breakers of `app.breaker()` at which calls have failed, for operators."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.app.services.services import Services
from headrace.core.clock import to_datetime
from headrace.core.tasks.breaker import KIND, BreakerState, record_of, summary_of
from headrace.core.tasks.options import check_name, check_text
from headrace.errors import BreakerNotFound
from headrace.runtime.context.breaker import reset_breaker
from headrace.runtime.documents import documents_of
from headrace.runtime.jobs.async_twin import twin

if TYPE_CHECKING:
    from headrace.app.admin.audit import Audit


class BreakerStatus(Struct, frozen=True, kw_only=True):
    """A circuit breaker with failures in a row. `error` is the type of the last one.

    It is `failing` until it has opened, `open` until `open_until`, and then `trying` until a call succeeds.
    """

    name: str
    state: BreakerState
    failures: int
    error: str
    open_until: datetime | None

    @property
    def summary(self) -> str:
        """What is wrong in a few words: `open after 5 failures (ConnectionError)`."""
        return summary_of(self.state, self.failures, self.error)


class Breakers:
    """`app.breakers`: lists the breakers with failures, and closes them."""

    def __init__(self, services: Services, audit: Callable[[], Audit]) -> None:
        self._services = services
        self._audit = audit

    def list(self) -> builtins.list[BreakerStatus]:
        """The breakers with failures, open ones first, then by name. One that is not listed is closed."""
        return sorted(self._failed(), key=lambda one: (one.state != "open", one.name))

    def reset(self, name: str, *, by: str | None = None) -> None:
        """Close a breaker, as if nothing had failed; BreakerNotFound if nothing has.

        All processes let calls through at once. Jobs that it put back stay scheduled until they are due.
        `by` is recorded in `app.audit`.
        """
        who = None if by is None else check_text("by", by)
        if not reset_breaker(self._services.engine.document_store, check_name("breaker", name)):
            raise BreakerNotFound(name)
        if who is not None:
            self._audit().record(who, "breakers.reset", name, "done")

    def _failed(self) -> Iterator[BreakerStatus]:
        now = self._services.clock.now()
        for document in documents_of(self._services.engine.document_store, KIND):
            record = record_of(document)
            if record.failures:  # a damaged record counts as closed
                yield BreakerStatus(
                    name=document.key,
                    state=record.state(now),
                    failures=record.failures,
                    error=record.error,
                    open_until=to_datetime(record.open_until or None),
                )

    alist = twin(list)
    areset = twin(reset)

"""The facade of the audit trail."""

from __future__ import annotations

import builtins
import secrets
from typing import Any

from headrace.app.services.services import Services
from headrace.core.audit import KIND, AuditEntry, entry_of, key_of, paper_of
from headrace.core.codec.redaction import redact
from headrace.core.damaged_records import readable
from headrace.core.tasks.options import check_limit, check_text
from headrace.runtime.jobs.async_twin import twin

_KEPT_MS = 90 * 86_400_000
_DROPPED_AT_ONCE = 20


class Audit:
    """`app.audit`: what was asked for over HTTP, for 90 days."""

    def __init__(self, hub: Services) -> None:
        self._hub = hub

    def record(self, who: str, what: str, target: str, outcome: str, detail: dict[str, Any] | None = None) -> None:
        """Add an entry; what in `detail` sounds like a secret is starred out."""
        shelf, now = self._hub.engine.shelf, self._hub.clock.now()
        shown = redact(detail or {}, frozenset(), self._hub.words)
        shelf.put([paper_of(now, secrets.token_hex(4), who, what, target, outcome, shown)])
        shelf.drop(KIND, key_of(now - _KEPT_MS), _DROPPED_AT_ONCE)

    def list(self, limit: int = 50, before: str | None = None) -> builtins.list[AuditEntry]:
        """The newest entries, or those before the entry of this cursor."""
        last = None if before is None else check_text("before", before)
        papers = self._hub.engine.shelf.browse(KIND, "", last, check_limit("limit", limit), newest_first=True)
        return list(readable(entry_of, papers))

    arecord = twin(record)
    alist = twin(list)

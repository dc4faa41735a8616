"""`app.audit`: the audit trail."""

from __future__ import annotations

import builtins
import secrets
from typing import Any

from headrace.app.services.services import Services
from headrace.core.audit import KIND, AuditEntry, document_of, entry_of, key_of
from headrace.core.codec.redaction import redact
from headrace.core.damaged_records import readable
from headrace.core.tasks.options import check_limit, check_text
from headrace.runtime.documents import drop_documents
from headrace.runtime.jobs.async_twin import twin

_KEEP_MS = 90 * 86_400_000
_DELETE_BATCH = 20


class Audit:
    """`app.audit`: changes over HTTP and MCP, kept for 90 days."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def record(self, who: str, what: str, target: str, outcome: str, detail: dict[str, Any] | None = None) -> None:
        """Add an entry; values in `detail` that look secret are redacted."""
        document_store, now = self._services.engine.document_store, self._services.clock.now()
        shown = redact(detail or {}, frozenset(), self._services.words)
        document_store.put([document_of(now, secrets.token_hex(4), who, what, target, outcome, shown)])
        drop_documents(document_store, KIND, key_of(now - _KEEP_MS), _DELETE_BATCH)

    def list(self, limit: int = 50, before: str | None = None) -> builtins.list[AuditEntry]:
        """The newest entries, or those before the entry with this cursor."""
        last = None if before is None else check_text("before", before)
        documents = self._services.engine.document_store.get(
            KIND, last=last, limit=check_limit("limit", limit), newest_first=True
        )
        return list(readable(entry_of, documents))

    arecord = twin(record)
    alist = twin(list)

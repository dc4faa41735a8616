"""The record of the last retention run, a document of the store. It knows nothing of jobs."""

from __future__ import annotations

import msgspec

from headrace.core.damaged_records import read
from headrace.core.documents import STAYS, Document
from headrace.core.retention.retention import RetentionRun
from headrace.engines.protocol.documents import DocumentStore

_KIND, _KEY = f"{STAYS}retention", "last"
_run = msgspec.json.Decoder(RetentionRun)


def last_run(document_store: DocumentStore) -> RetentionRun | None:
    """The last recorded retention run."""
    found = document_store.get(_KIND, [_KEY])
    return read(_run.decode, found[0].value) if found else None


def store_last_run(document_store: DocumentStore, run: RetentionRun) -> None:
    """Store the run in place of the last one. Of two at the same moment, one is stored: both keep others away."""
    found = document_store.get(_KIND, [_KEY])
    version = found[0].version if found else 0
    document_store.put([Document(_KIND, _KEY, version, msgspec.json.encode(run).decode())])

"""The audit log: who did what over HTTP or MCP, and whether it was done. Entries are documents, sorted by time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.core.clock import to_datetime
from headrace.core.documents import Document

KIND = "audit"
_DIGITS = 16


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One requested write. `cursor` continues a list after it."""

    cursor: str
    at: datetime
    who: str
    what: str
    target: str
    outcome: str
    detail: dict[str, Any]


class _Value(Struct, frozen=True, array_like=True):
    who: str
    what: str
    target: str
    outcome: str
    detail: dict[str, Any]


_values = msgspec.json.Decoder(_Value)


def document_of(
    now: int, unique: str, who: str, what: str, target: str, outcome: str, detail: dict[str, Any]
) -> Document:
    """The document of an entry. `unique` distinguishes entries of the same millisecond."""
    value = msgspec.json.encode(_Value(who, what, target, outcome, detail)).decode()
    return Document(KIND, f"{key_of(now)}-{unique}", 0, value)


def key_of(ms: int) -> str:
    """The first key of a time."""
    return f"{ms:0{_DIGITS}d}"


def entry_of(document: Document) -> AuditEntry:
    value = _values.decode(document.value)
    at = to_datetime(int(document.key[:_DIGITS]))
    assert at is not None
    return AuditEntry(
        cursor=document.key,
        at=at,
        who=value.who,
        what=value.what,
        target=value.target,
        outcome=value.outcome,
        detail=value.detail,
    )


def erased(document: Document) -> Document:
    """The entry without its target and its detail: who did what, when, and whether it was done."""
    value = replace(_values.decode(document.value), target="(erased)", detail={})
    return replace(document, value=msgspec.json.encode(value).decode())

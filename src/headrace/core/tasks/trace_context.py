"""The trace context of a job: its correlation id, and the trace it belongs to.

It is stored in the job's metadata, in front of the user's data, under a key that no user's key is ever encoded as (see
`core.codec`). So it needs no column, a metadata search finds it, and `job.metadata` stays the user's own. A job without
one is its own cause.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from headrace.core.codec import codec
from headrace.errors import CorruptPayload

KEY = "$trace"
CORRELATION = "correlation_id"  # the user's own metadata key, which has precedence
LONGEST = 200  # characters of a correlation id, as all jobs of a cause have it
_MARK = f'"{KEY}"'
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TraceContext(Struct, frozen=True, omit_defaults=True):
    """What a job inherits from its enqueuer. `has_dependencies` says that it has dependencies.

    `traceparent` and `tracestate` are those of W3C trace context.
    """

    correlation: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    has_dependencies: bool = False


NO_TRACE_CONTEXT = TraceContext()
_trace_context = msgspec.json.Decoder(TraceContext)


def marked(metadata: str | None, trace_context: TraceContext) -> str | None:
    """The stored metadata of a job, with this trace context and no other."""
    rest = plain(metadata)
    if trace_context == NO_TRACE_CONTEXT:
        return rest
    mark = f"{_MARK}:{msgspec.json.encode(trace_context).decode()}"
    return f"{{{mark}}}" if rest is None or rest == "{}" else f"{{{mark},{rest[1:]}"


def plain(metadata: str | None) -> str | None:
    """The metadata as the user gave it, still encoded."""
    if metadata is None or _MARK not in metadata:
        return metadata
    fields = _split(metadata)
    return msgspec.json.encode(fields).decode() if fields.pop(KEY, None) is None or fields else None


def decoded(metadata: str | None) -> dict[str, Any]:
    """The metadata as the user gave it."""
    given = plain(metadata)
    return codec.decode(given) if given else {}


def trace_context_of(metadata: str | None) -> TraceContext:
    """The trace context in the metadata; an unreadable one is none, as no job may fail because of it."""
    if metadata is None or _MARK not in metadata:
        return NO_TRACE_CONTEXT
    try:
        return _trace_context.decode(_split(metadata).get(KEY, b"{}"))
    except (msgspec.MsgspecError, CorruptPayload):
        return NO_TRACE_CONTEXT


def correlation_of(metadata: str | None, job_id: str) -> str:
    """The correlation id of a job: from its metadata, inherited, or else its own id."""
    if metadata is None:
        return job_id
    try:
        own = decoded(metadata).get(CORRELATION) if CORRELATION in metadata else None
    except CorruptPayload:
        own = None
    return own[:LONGEST] if isinstance(own, str) and own else trace_context_of(metadata).correlation or job_id


def _split(metadata: str) -> dict[str, msgspec.Raw]:
    try:
        return _fields.decode(metadata)
    except msgspec.MsgspecError as error:
        raise CorruptPayload(f"metadata: {error}") from None

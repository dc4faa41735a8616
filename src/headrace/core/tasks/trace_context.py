"""The trail of a job: which cause it goes back to, and which trace it belongs to.

It is stored with the job's metadata, in front of what the user put there, under a key that no user's key is ever
written as (see `tags`). So it costs no column, is found by whoever searches metadata, and `job.metadata` stays what the
user made it. A job without a trail goes back to itself.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from headrace.core.codec import codec
from headrace.errors import CorruptPayload

KEY = "$trail"
CORRELATION = "correlation_id"  # the user's own key in the metadata, which goes before the trail
LONGEST = 200  # characters of what all jobs of a cause carry with them
_MARK = f'"{KEY}"'
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TraceContext(Struct, frozen=True, omit_defaults=True):
    """What a job inherits from whoever enqueued it. `kin` tells that it waits for others, or others for it.

    `traceparent` and `tracestate` are those of W3C trace context.
    """

    correlation: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    kin: bool = False


NO_TRACE_CONTEXT = TraceContext()
_trace_context = msgspec.json.Decoder(TraceContext)


def marked(metadata: str | None, trace_context: TraceContext) -> str | None:
    """The metadata of a job, as stored, with this trail and no other."""
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
    """The trail that goes with the metadata; one that can't be read is none, for no job may fail by it."""
    if metadata is None or _MARK not in metadata:
        return NO_TRACE_CONTEXT
    try:
        return _trace_context.decode(_split(metadata).get(KEY, b"{}"))
    except (msgspec.MsgspecError, CorruptPayload):
        return NO_TRACE_CONTEXT


def correlation_of(metadata: str | None, job_id: str) -> str:
    """What ties the job to all that its cause set off: said in its metadata, inherited, or else its own id."""
    if metadata is None:
        return job_id
    try:
        said = decoded(metadata).get(CORRELATION) if CORRELATION in metadata else None
    except CorruptPayload:
        said = None
    return said[:LONGEST] if isinstance(said, str) and said else trace_context_of(metadata).correlation or job_id


def _split(metadata: str) -> dict[str, msgspec.Raw]:
    try:
        return _fields.decode(metadata)
    except msgspec.MsgspecError as error:
        raise CorruptPayload(f"metadata: {error}") from None

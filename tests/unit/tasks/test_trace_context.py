"""A trace context is stored in a job's metadata and never shown there, whatever the user put there."""

from __future__ import annotations

import pytest

from headrace.core.codec import codec
from headrace.core.tasks.trace_context import (
    NO_TRACE_CONTEXT,
    TraceContext,
    correlation_of,
    decoded,
    marked,
    plain,
    trace_context_of,
)

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRAIL = TraceContext(correlation='a "quoted" {id}', traceparent=PARENT, has_dependencies=True)


@pytest.mark.parametrize(
    "given",
    [None, {}, {"a": 1}, {"$trace": "mine"}, {"$trace": 1, "b": {"$set": 2}}, {"said": '{"$trace":{}}'}, {"t": (1, 2)}],
)
def test_a_trace_context_comes_back_and_the_metadata_is_unchanged(given: dict[str, object] | None) -> None:
    stored = None if given is None else codec.encode(given)
    text = marked(stored, TRAIL)
    assert trace_context_of(text) == TRAIL
    assert decoded(text) == (given or {})
    assert trace_context_of(stored) == NO_TRACE_CONTEXT
    assert decoded(stored) == (given or {})


def test_a_job_has_one_trace_context_and_a_new_one_replaces_it() -> None:
    text = marked(marked(codec.encode({"a": 1}), TRAIL), TraceContext(correlation="new"))
    assert trace_context_of(text) == TraceContext(correlation="new")
    assert plain(text) == '{"a":1}'
    assert marked(text, NO_TRACE_CONTEXT) == '{"a":1}'
    assert marked(marked(None, TRAIL), NO_TRACE_CONTEXT) is None


def test_a_correlation_id_is_given_or_inherited_or_the_jobs_own_id() -> None:
    metadata = codec.encode({"correlation_id": "said"})
    assert correlation_of(None, "own") == "own"
    assert correlation_of(marked(None, TRAIL), "own") == TRAIL.correlation
    assert correlation_of(marked(metadata, TRAIL), "own") == "said"
    assert correlation_of(codec.encode({"correlation_id": 7}), "own") == "own"
    assert correlation_of(codec.encode({"correlation_id": "x" * 10_000}), "own") == "x" * 200


@pytest.mark.parametrize("damaged", ['{"$trace":7}', '{"$trace":{"correlation":7}}', '{"$trace":', '["$trace"]'])
def test_a_damaged_trace_context_is_none(damaged: str) -> None:
    assert trace_context_of(damaged) == NO_TRACE_CONTEXT
    assert correlation_of(damaged, "own") == "own"

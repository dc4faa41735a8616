"""PostgreSQL's text has no NUL: whatever is stored has another sign in its place, and nothing else is changed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.engines.postgres.transaction import storable
from headrace.engines.shared.sql_files import as_json

TEXT = st.text(st.sampled_from(["\x00", "\\", "u", "0", '"', "a", "\ufffd", "🐘"]), max_size=24)


@given(TEXT)
@example("\\u0000")
@example("\\\x00")
@example("\\\\\x00\\u0000")
@example("\x00\x00")
def test_in_a_batch_every_nul_is_replaced_and_everything_else_kept(text: str) -> None:
    stored = storable(as_json([text, {"nested": text}]))
    assert "\x00" not in stored
    kept = text.replace("\x00", "\ufffd")
    assert msgspec.json.decode(stored) == [kept, {"nested": kept}]


@given(TEXT)
def test_json_inside_of_a_batch_is_a_text_like_any_other(text: str) -> None:
    """A job's payload keeps its escapes: its checksum is that of this very text."""
    payload = as_json([text])
    assert msgspec.json.decode(storable(as_json([payload]))) == [payload]


@pytest.mark.parametrize(("text", "kept"), [("a\x00b", "a\ufffdb"), ("\x00", "\ufffd"), ("plain", "plain"), ("", "")])
def test_a_plain_text_too(text: str, kept: str) -> None:
    assert storable(text) == kept

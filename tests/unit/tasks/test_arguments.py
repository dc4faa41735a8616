"""Arguments by name, and as one line."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.codec.result_refs import ResultRef
from headrace.core.documents import Document
from headrace.core.tasks.arguments import by_name, line_of, value_text
from headrace.core.tasks.declared import KIND, DeclaredTask, changed_documents, declared_in

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.uuids(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("names", "args", "kwargs", "named"),
    [
        (("a", "b"), (1, 2), {}, {"a": 1, "b": 2}),
        (("a", "b"), (1,), {"c": 3}, {"a": 1, "c": 3}),
        (("a", "*rest"), (1, 2, 3), {}, {"a": 1, "rest": [2, 3]}),
        (("a", "*rest"), (1,), {}, {"a": 1}),
        (None, (1, 2), {"c": 3}, {"0": 1, "1": 2, "c": 3}),
        (("a",), (1, 2), {}, {"a": 1, "1": 2}),
        (("a",), (1,), {"a": 2}, {"a": 1, "kwargs.a": 2}),
        ((), (), {}, {}),
    ],
)
def test_every_argument_has_the_name_of_its_parameter(
    names: Any, args: tuple[Any, ...], kwargs: dict[str, Any], named: dict[str, Any]
) -> None:
    assert by_name(names, args, kwargs) == named


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (40199, "40199"),
        ("x", '"x"'),
        ('say "hi"\n', '"say \\"hi\\"\\n"'),
        (True, "true"),
        (None, "null"),
        ("***", "***"),
        (date(2026, 3, 1), "2026-03-01"),
        (datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00+00:00"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ((1, 2), "[1,2]"),
        ([1, {"a": "b"}], '[1,{"a":"b"}]'),
        ({"$date": "x"}, '{"$dict":[["$date","x"]]}'),
    ],
)
def test_a_value_is_shown_briefly(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_a_line_names_the_arguments_and_leaves_a_position_out() -> None:
    assert line_of({"order_id": 40199, "note": "x", "card": "***"}) == 'order_id=40199, note="x", card=***'
    assert line_of({"0": 1, "b": 2}) == "1, b=2"
    assert line_of({}) == ""


@settings(max_examples=25)
@given(st.dictionaries(st.text(max_size=9), ANYTHING, max_size=4), st.integers(2, 200))
def test_a_line_is_never_longer_than_its_limit(named: dict[str, Any], limit: int) -> None:
    assert len(line_of(named, limit)) <= limit


def test_only_new_and_changed_tasks_are_stored() -> None:
    declared = {"a": DeclaredTask(("x",)), "b": DeclaredTask(("y",), ("y",)), "c": DeclaredTask()}
    first = changed_documents(declared, [])
    assert [(document.kind, document.key, document.version) for document in first] == [(KIND, key, 0) for key in "abc"]
    assert declared_in(first) == declared
    stored = [Document(KIND, document.key, 4, document.value) for document in first]
    assert changed_documents(declared, stored) == []
    (changed,) = changed_documents({**declared, "a": DeclaredTask(("z",))}, stored)
    assert (changed.key, changed.version) == ("a", 4)


def test_a_damaged_declaration_declares_nothing() -> None:
    assert declared_in([Document(KIND, "a", 1, "{")]) == {"a": DeclaredTask()}


def test_the_result_of_a_parent_is_named_in_words() -> None:
    one, other = ResultRef("01a1f04a-d9da-7b90-9cde-3fa48f1c3520"), ResultRef("01a1f04a-d9da-7b90-9cde-3fa48f1c3521")
    assert line_of({"text": one}) == "text=result of …8f1c3520"
    assert line_of({"texts": [one, other]}) == "texts=results of 2 jobs"

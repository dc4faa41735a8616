"""Indexed arguments: the hidden tags of their values, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError, Headrace, InvalidJob
from headrace.app.services.filters import as_filter
from headrace.core.damaged_records import stored_tags, tags_of
from headrace.core.tasks.index import HIDDEN, index_tags, places_of, tag_of
from headrace.core.tasks.labels import LABEL
from headrace.core.tasks.options import checked
from tests.runtime.jobs.test_encryption import NEW

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,150}", fullmatch=True)
VALUES = (
    st.text() | st.integers() | st.booleans() | st.uuids() | st.dates() | st.datetimes() | st.decimals() | st.floats()
)


class Color(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (40199, "40199"),
        ("40199", "40199"),
        ("", ""),
        (True, "true"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (date(2026, 3, 1), "2026-03-01"),
        (datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00+00:00"),
        (Decimal("1.50"), "1.50"),
        (1.5, "1.5"),
        (Color.RED, "red"),
        ("a=b", "a=b"),
    ],
)
def test_a_value_has_the_tag_of_its_text(value: Any, text: str) -> None:
    assert tag_of("x", value) == f"{HIDDEN}x={text}"
    assert list(index_tags("t", (("x", 0),), (value,), {})) == [f"{HIDDEN}x={text}"]


@given(NAMES, VALUES)
def test_a_tag_is_short_storable_and_not_one_that_a_user_can_set(name: str, value: Any) -> None:
    tag = tag_of(name, value)
    assert tag.startswith(HIDDEN)
    assert LABEL.fullmatch(tag[1:])
    stored = msgspec.json.encode(["mine", tag]).decode()
    assert (stored_tags(stored), tags_of(stored)) == (("mine", tag), ("mine",))
    with pytest.raises(InvalidJob):
        checked({"tags": [tag]})


@given(NAMES, st.text(), NAMES, st.text())
def test_different_names_or_texts_have_different_tags(name: str, text: str, other: str, other_text: str) -> None:
    assert (tag_of(name, text) == tag_of(other, other_text)) == ((name, text) == (other, other_text))


@given(VALUES, st.booleans())
def test_a_call_is_found_by_the_value_that_it_was_given(value: Any, by_name: bool) -> None:
    places = places_of(("b",), ("a", "b", "*rest"))
    args, kwargs = ((1,), {"b": value}) if by_name else ((1, value, 3), {})
    assert list(index_tags("t", places, args, kwargs)) == [tag_of("b", value)]
    assert as_filter({"args": {"b": value}}).tag == tag_of("b", value)


def test_an_argument_that_is_missing_or_none_has_no_tag() -> None:
    places = places_of(("a", "b"), ("a",))
    assert list(index_tags("t", places, (None,), {})) == []
    assert list(index_tags("t", places, (), {"b": 1})) == [tag_of("b", 1)]


@pytest.mark.parametrize("value", [[1], {"a": 1}, b"x", (1,), object()])
def test_a_value_without_a_text_of_its_own_is_refused(value: Any) -> None:
    with pytest.raises(InvalidJob, match="argument 'x': the index takes a text"):
        list(index_tags("t", (("x", 0),), (value,), {}))
    with pytest.raises(InvalidJob, match="args: x: expected a text"):
        tag_of("x", value)


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ({"args": {}}, "expected one indexed argument"),
        ({"args": {"a": 1, "b": 2}}, "expected one indexed argument"),
        ({"args": "a=1"}, "expected one indexed argument"),
        ({"args": {"a b": 1}}, "is not the name of a parameter"),
        ({"args": {1: 1}}, "is not the name of a parameter"),
        ({"args": {"a": None}}, "expected a text"),
        ({"args": {"a": 1}, "tag": "x"}, "exclude each other"),
    ],
)
def test_a_wrong_filter_is_named(filters: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidJob, match=text):
        as_filter(filters)


def pay(order_id: int, password: str, order_key: str, *rest: int, **named: int) -> None: ...


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"index": ("order",)}, "'order' is not one of its parameters"),
        ({"index": ("rest",)}, "'rest' is not one of its parameters"),
        ({"index": ("named",)}, "'named' is not one of its parameters"),
        ({"index": ("password",)}, "'password' is secret"),
        ({"index": ("order_key",)}, "'order_key' is secret"),
        ({"index": ("order_id",), "redact": ("ORDER_ID",)}, "'order_id' is secret"),
        ({"index": "order_id"}, "index: expected a list of words"),
        ({"index": ("order id",)}, "at most 10 names of parameters"),
        ({"index": [f"a{n}" for n in range(11)]}, "at most 10 names of parameters"),
    ],
)
def test_a_wrong_index_is_refused_at_its_declaration(options: dict[str, Any], text: str) -> None:
    with Headrace("memory://") as app, pytest.raises(ConfigError, match=text):
        app.task(**options)(pay)


def test_an_index_of_encrypted_arguments_is_refused_at_its_declaration() -> None:
    with (
        Headrace("memory://", encryption_keys=[NEW]) as app,
        pytest.raises(ConfigError, match="would store arguments that encryption_keys hides"),
    ):
        app.task(index=("order_id",))(pay)


def test_a_call_can_not_have_an_index_of_its_own_but_can_hide_an_argument() -> None:
    with Headrace("memory://") as app:
        task = app.task(name="pay", index=("order_id",))(pay)
        with pytest.raises(InvalidJob, match="index: set it for the task"):
            task.using(index=("order_id",)).enqueue(1, "p", "k")  # type: ignore[call-arg]
        hidden = task.using(redact=("order_id",)).enqueue(1, "p", "k")
        shown = task.enqueue(1, "p", "k")
        assert [job.id for job in app.jobs.find(args={"order_id": 1})] == [shown.id]
        assert hidden.refresh().tags == ()

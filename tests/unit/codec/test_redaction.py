"""No secret is shown: not nested, not positional, not in another case; and nothing is changed in place."""

from __future__ import annotations

import copy
from collections import namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.codec.redaction import MASK, redact, redact_call, unmasked
from headrace.errors import InvalidJob

SECRET = frozenset({"Password", "token"})


def test_values_under_a_name_are_hidden_at_any_depth() -> None:
    value = {"user": "ann", "login": [{"password": "x", "deep": ({"token": {"a": 1}}, 2)}]}
    assert redact(value, SECRET) == {"user": "ann", "login": [{"password": MASK, "deep": ({"token": MASK}, 2)}]}


def test_case_does_not_matter_but_the_whole_name_does() -> None:
    value = {"PASSWORD": 1, "passWord": 2, "password_hint": 3, "my password": 4, 5: 6}
    assert redact(value, SECRET) == {
        "PASSWORD": MASK,
        "passWord": MASK,
        "password_hint": 3,
        "my password": 4,
        5: 6,
    }


def test_sets_tuples_and_named_tuples_keep_their_kind() -> None:
    login = namedtuple("login", "user password")
    value = [{login("ann", "x")}, frozenset({(login("bob", "y"),)}), (1, 2), {3}]
    assert redact(value, SECRET) == [{login("ann", MASK)}, frozenset({(login("bob", MASK),)}), (1, 2), {3}]


def test_a_value_too_deep_to_follow_is_hidden_rather_than_shown() -> None:
    circle: dict[str, Any] = {"password": "x"}
    circle["again"] = circle
    assert "'x'" not in repr(redact(circle, SECRET))


def test_without_names_nothing_is_touched() -> None:
    value = {"password": "x"}
    assert redact(value, frozenset()) is value
    assert redact_call(("password",), ("x",), {"token": 1}, frozenset()) == (("x",), {"token": 1})


def test_positional_arguments_are_hidden_by_the_name_of_their_parameter() -> None:
    args, kwargs = redact_call(
        ("user", "PassWord"), ("ann", "x", {"token": 1}), {"token": 2, "to": [{"Token": 3}]}, SECRET
    )
    assert args == ("ann", MASK, {"token": MASK})
    assert kwargs == {"token": MASK, "to": [{"Token": MASK}]}


def test_a_starred_parameter_names_all_the_arguments_from_its_place_on() -> None:
    assert redact_call(("a", "*token"), (1, 2, 3), {}, SECRET)[0] == (1, MASK, MASK)
    assert redact_call(("a", "*more"), (1, 2, 3), {}, SECRET)[0] == (1, 2, 3)
    assert redact_call(("a", "*token"), (1,), {}, SECRET)[0] == (1,)


def test_arguments_of_an_unknown_function_are_searched_all_the_same() -> None:
    assert redact_call(None, (1, {"token": 2}), {}, SECRET) == ((1, {"token": MASK}), {})
    assert redact_call(("a", "b", "token"), (1,), {}, SECRET) == ((1,), {})


keys = st.sampled_from(["password", "TOKEN", "name", "x"])
data = st.recursive(
    st.just("secret") | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=12,
)


def shown_under_a_secret_name(value: Any) -> list[Any]:
    if isinstance(value, dict):
        own = [item for key, item in value.items() if key.lower() in {"password", "token"} and item != MASK]
        return own + [found for item in value.values() for found in shown_under_a_secret_name(item)]
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in shown_under_a_secret_name(item)]
    return []


@given(data)
def test_nothing_is_left_under_a_secret_name_and_the_original_stays_whole(value: Any) -> None:
    before = copy.deepcopy(value)
    redacted = redact(value, SECRET)
    assert not shown_under_a_secret_name(redacted)
    assert value == before
    assert redact(redacted, SECRET) == redacted
    if not shown_under_a_secret_name(value):
        assert redacted == value


def test_stars_that_are_handed_back_are_the_secret_again() -> None:
    had = {"user": "ann", "logins": [{"password": "x", "at": 1}, ("token", "y")], "stars": MASK}
    shown = redact(had, SECRET)
    assert unmasked(shown, shown, had) == had
    edited = {"user": "bob", "logins": [{"password": "new", "at": 2}, ("token", MASK), 3], "stars": MASK, "more": [1]}
    assert unmasked(edited, shown, had) == {
        "user": "bob",
        "logins": [{"password": "new", "at": 2}, ("token", "y"), 3],
        "stars": MASK,
        "more": [1],
    }


@pytest.mark.parametrize(
    "edited", [MASK, {"user": MASK}, {"logins": [MASK]}, {"new": {"deep": [MASK]}}, {"password": [MASK]}]
)
def test_stars_where_nothing_was_hidden_are_refused(edited: Any) -> None:
    had = {"user": "ann", "logins": [{"password": "x"}], "password": "x"}
    with pytest.raises(InvalidJob, match="write it out"):
        unmasked(edited, redact(had, SECRET), had)


@given(
    st.recursive(
        st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "token"]), inner),
    )
)
def test_what_is_shown_and_handed_back_untouched_is_what_it_was(value: Any) -> None:
    assert unmasked(redact(value, SECRET), redact(value, SECRET), value) == value

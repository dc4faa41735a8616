"""Names that sound like a secret are found however they are written; names that only look alike are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.codec.redaction import MASK, redact, redact_call
from headrace.core.codec.secret_names import WORDS, looks_secret, mentions, words_of
from headrace.core.settings.settings import resolve
from tests.support.cases import check_each

NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    "name",
    [
        *("password", "PASSWORD", "Passwd", "pwd", "dbPassword", "db_password", "dbpassword", "passwords"),
        *("password_hash", "secret", "client_secret", "clientSecret", "SECRET_KEY", "token", "accessToken"),
        *("accesstoken", "X-Auth-Token", "api_key", "apiKey", "APIKey", "apikey", "X-API-KEY", "key", "privateKey"),
        *("private_key_pem", "authorization", "Proxy-Authorization", "Cookie", "set-cookie", "cookies"),
        *("credentials", "aws_credentials", "card_number", "cardNumber", "creditcard", "cvv", "CVC", "ssn"),
        *("iban", "pin", "auth", "jwt", "bearer", "passphrase", "csrf", "otp", "session_id", "keys", "new-password"),
        *("access_token", "authorization", "credit_card", "account-number"),
    ],
)  # fmt: skip
def test_a_name_that_sounds_like_a_secret(name: str) -> None:
    assert looks_secret(name, "x", WORDS)
    assert redact({"a": [{name: "x"}]}, NONE, WORDS) == {"a": [{name: MASK}]}
    assert redact_call((name,), ("x",), {}, NONE, WORDS)[0] == (MASK,)
    assert mentions(f"Login(user='ann', {name}='x')", WORDS)


def test_a_name_that_only_looks_alike() -> None:
    def check(name: str) -> None:
        assert not looks_secret(name, "x", WORDS)

    check_each(
        [
            *(
                "",
                "user",
                "keyword",
                "keyboard",
                "monkey",
                "key_count",
                "tokenizer",
                "secretary",
                "pass_rate",
                "bypass",
            ),
            *(
                "author",
                "authors",
                "auth_method",
                "pinned",
                "spin",
                "opinion",
                "company",
                "passenger",
                "compass",
                "cards",
            ),
            *("card", "number", "session", "pwdir", "description", "éclair", "日本", "-", "1"),
        ],
        check,
    )


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("max_tokens", 512, False),
        ("tokens", 1.5, False),
        ("tokens", ["abc"], True),
        ("pin", 1234, True),
        ("card_number", 4111, True),
        ("reset_password", True, False),
        ("password", None, False),
        ("password", "", True),
    ],
)
def test_a_yes_or_no_is_no_secret_and_neither_is_a_number_of_them(name: str, value: Any, hidden: bool) -> None:
    assert looks_secret(name, value, WORDS) is hidden


def test_pairs_as_in_headers_are_hidden_by_their_first() -> None:
    headers = [("Accept", "*/*"), ("Authorization", "Bearer x"), ["cookie", "y"], ("a", "b", "c")]
    assert redact(headers, NONE, WORDS) == [
        ("Accept", "*/*"),
        ("Authorization", MASK),
        ["cookie", MASK],
        ("a", "b", "c"),
    ]
    assert redact({b"Authorization": b"x"}, NONE, WORDS) == {b"Authorization": MASK}


def test_secret_words_are_added_or_all_switched_off() -> None:
    assert words_of(None) == NONE
    assert words_of(()) == WORDS
    more = words_of(["diagnosis", "Tax-Number", " "])
    assert looks_secret("patientDiagnosis", "x", more)
    assert looks_secret("tax_number", "x", more)
    assert not looks_secret("user", "x", more)
    assert not looks_secret("password", "x", words_of(None))


@pytest.mark.parametrize(
    ("given", "settled"),
    [("none", None), ("NONE", None), ("diagnosis, tax", ("diagnosis", "tax")), ([], ()), (None, None)],
)
def test_secret_words_are_a_setting(given: Any, settled: Any) -> None:
    assert resolve({"secret_words": given}, {}, {}, "").settings.secret_words == settled


SECRET = "hunter2"
NAMES = st.sampled_from(["password", "apiKey", "db_secret", "Declared"])
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5).filter(lambda text: SECRET not in text)
HIDDEN = NAMES.map(lambda name: {name: SECRET}) | NAMES.map(lambda name: (name, SECRET))


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers() | NAMES, inner, max_size=4)
    )


@given(st.recursive(PLAIN | HIDDEN, nested, max_leaves=20))
def test_no_secret_is_left_in_any_structure(value: Any) -> None:
    assert SECRET not in repr(redact(value, frozenset({"declared"}), WORDS))

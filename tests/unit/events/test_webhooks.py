"""Webhooks: addresses that may be sent to, and signatures that a receiver can check."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.events.webhooks import key_of, secret_of, signature, verify
from headrace.errors import InvalidJob
from headrace.runtime.http_client import check_url

# The example of the Standard Webhooks specification.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"test": 2432232314}'
MESSAGE, AT = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330


def test_a_signature_is_that_of_the_specification() -> None:
    assert signature(SECRET, MESSAGE, AT, BODY) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def _headers(**more: str) -> dict[str, str]:
    given = {
        "Webhook-Id": MESSAGE,
        "webhook-timestamp": str(AT),
        "webhook-signature": signature(SECRET, MESSAGE, AT, BODY),
    }
    return {**given, **{name.replace("_", "-"): value for name, value in more.items()}}


def test_a_receiver_knows_what_is_ours_and_fresh() -> None:
    now = datetime.fromtimestamp(AT, UTC)
    assert verify(SECRET, _headers(), BODY, now)
    assert verify(SECRET, _headers(), BODY.encode(), now + timedelta(minutes=4))
    assert verify(SECRET, _headers(webhook_signature="v1,nope " + _headers()["webhook-signature"]), BODY, now)


@pytest.mark.parametrize(
    ("headers", "body", "later"),
    [
        ({}, BODY + " ", 0),
        ({"webhook_timestamp": str(AT + 1)}, BODY, 0),
        ({"webhook_timestamp": "now"}, BODY, 0),
        ({"webhook_signature": ""}, BODY, 0),
        ({"Webhook_Id": "another"}, BODY, 0),
        ({}, BODY, 600),
        ({}, BODY, -600),
    ],
)
def test_a_receiver_refuses_the_rest(headers: dict[str, str], body: str, later: int) -> None:
    given = {name.lower(): value for name, value in _headers().items()}
    given |= {name.replace("_", "-").lower(): value for name, value in headers.items()}
    assert not verify(SECRET, given, body, datetime.fromtimestamp(AT + later, UTC))


@pytest.mark.parametrize(
    "url",
    [
        *("https://example.com/x", "http://localhost:8000", "http://127.0.0.1", "http://[::1]/x"),
        *("https://b\u00fccher.example/x", "https://example.com/h%C3%A4ken"),
    ],
)
def test_https_and_this_machine_may_be_sent_to(url: str) -> None:
    assert check_url(url, insecure=False) == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.com", "ftp://example.com", "example.com", "", "https://", "https://me:pw@example.com", 7),
        *("https://example.com/a b", "https://example.com/\r\nx", "http://localhost.example.com", "https://x:99999"),
        *(
            "https://example.com/h\u00e4ken",
            "https://example.com/?q=\u00e4",
            "https://a..b/",
            f"https://{'a' * 64}.com/",
        ),
        *("https://example.com/\x00", "https://example.com:0/"),
    ],
)
def test_other_addresses_are_refused(url: object) -> None:
    with pytest.raises(InvalidJob, match="url"):
        check_url(url, insecure=False)


def test_http_elsewhere_has_to_be_allowed() -> None:
    assert check_url("http://example.com", insecure=True) == "http://example.com"


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!", "whsec_" + base64.b64encode(b"short").decode(), None])
def test_a_weak_secret_is_refused(secret: object) -> None:
    with pytest.raises(InvalidJob, match="secret"):
        key_of(secret)


def test_a_secret_is_its_key() -> None:
    assert key_of(secret_of(b"x" * 32)) == b"x" * 32


def test_no_other_bytes_pass_for_what_was_signed_and_no_header_breaks_the_check() -> None:
    now, body = datetime.fromtimestamp(AT, UTC), "cut \ufffd short"
    given = {**_headers(), "webhook-signature": signature(SECRET, MESSAGE, AT, body)}
    assert verify(SECRET, given, body.encode(), now)
    assert not verify(SECRET, given, b"cut \xff short", now)
    assert not verify(SECRET, {**given, "webhook-signature": "v1,\udcff"}, body, now)
    assert not verify(SECRET, {**given, "Webhook-Id": "\udcff"}, body, now)


@pytest.mark.parametrize("types", [None, 7])
def test_types_that_are_none_are_refused(types: Any) -> None:
    with Headrace("memory://") as app, pytest.raises(InvalidJob, match="types: expected names of types"):
        app.webhooks.create("https://example.com/x", types)

"""Failures of one kind have one fingerprint, whatever varies between them; others have others."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.jobs.fingerprint import fingerprint, fingerprint_of_lost, own_frame, steady
from headrace.core.jobs.records import ErrorInfo

TRACE = """Traceback (most recent call last):
  File "/srv/{release}/shop/jobs.py", line {line}, in send
    deliver(to)
  File "/srv/{release}/shop/mail.py", line 80, in {function}
    raise ConnectionError
  File "/usr/lib/python3.12/socket.py", line 3, in create_connection
    raise error
  File "/srv/venv/lib/python3.12/site-packages/http/pool.py", line 3, in connect
    raise error
ConnectionError: away
"""


def trace(release: str = "a", line: int = 5, function: str = "deliver") -> str:
    return TRACE.format(release=release, line=line, function=function)


def of(message: str, *, task: str = "send", kind: str = "ValueError", traceback: str = "") -> str:
    return fingerprint(task, ErrorInfo(kind, message, traceback), "permanent_error")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no customer 17", "no customer 4711"),
        ("took 1.5 s", "took 22.75 s"),
        ("row 0197b6f3-5c1e-7d2a-9c3e-0a1b2c3d4e5f", "row 0197b6f3-aaaa-7d2a-9c3e-0a1b2c3d4e60"),
        ("<Thing at 0x7f00aa>", "<Thing at 0x7fff12bc>"),
        ("key 'ann'", "key 'bob the builder'"),
        ('key "ann"', 'key "x"'),
        ("can't open /srv/a/b.txt", "can't open /srv/other/place/c.txt"),
        ("no route to 10.0.0.1:5432", "no route to 192.168.7.20:80"),
        ("mail to ann@example.org bounced", "mail to bob@example.com bounced"),
        ("GET https://example.org/a?b=1 failed", "GET http://example.com failed"),
        ("commit deadbeef01 is gone", "commit 0badf00d77 is gone"),
        ("a\n  b", "a b"),
    ],
)
def test_variable_parts_do_not_separate_failures(one: str, other: str) -> None:
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (of("away"), of("gone")),
        (of("away"), of("away", task="receive")),
        (of("away"), of("away", kind="KeyError")),
        (of("away", traceback=trace()), of("away", traceback=trace(function="connect"))),
        (of("key 'a' is taken"), of("key 'a' is free")),
        (of("away"), fingerprint("send", None, "permanent_error")),
        (fingerprint("send", None, "odd"), fingerprint("send", None, "other")),
        (fingerprint_of_lost("send"), fingerprint_of_lost("receive")),
    ],
)
def test_what_differs_does(one: str, other: str) -> None:
    assert one != other


def test_a_deploy_or_an_edit_elsewhere_does_not_change_it() -> None:
    assert of("away", traceback=trace("a", 5)) == of("away", traceback=trace("b", 77))


def test_the_innermost_own_frame_counts() -> None:
    assert own_frame(trace()) == "mail.py:deliver"
    assert own_frame('  File "C:\\shop\\jobs.py", line 3, in send\n') == "jobs.py:send"
    assert own_frame('  File "<string>", line 3, in send\n') == ""
    assert own_frame("") == ""


def test_a_message_is_fingerprinted_without_its_variable_parts() -> None:
    assert steady("no customer 17 in 'north'") == "no customer <n> in <text>"


@given(st.text(), st.text(), st.text(), st.text())
def test_it_is_short_hex_and_steady_for_any_text(task: str, kind: str, message: str, traceback: str) -> None:
    error = ErrorInfo(kind, message, traceback)
    found = fingerprint(task, error, "odd")
    assert re.fullmatch("[0-9a-f]{16}", found)
    assert found == fingerprint(task, error, "odd")


@given(st.integers(min_value=0), st.integers(min_value=0))
def test_numbers_never_separate_failures(one: int, other: int) -> None:
    assert of(f"order {one}, line {other}.") == of(f"order {other}, line {one}.")


@given(st.text(alphabet=st.characters(exclude_characters="'\n\"@")), st.sampled_from(["'", '"']))
def test_quoted_texts_never_separate_failures(text: Any, quote: str) -> None:
    assert of(f"no key {quote}{text}{quote} here") == of(f"no key {quote}x{quote} here")

"""The redactor masks the hidden arguments of a call in any text, and nothing else."""

from __future__ import annotations

from headrace.core.codec.error_redaction import redactor_of
from headrace.core.codec.redaction import redact_call
from headrace.core.codec.secret_names import WORDS


def over(text: str, *args: object, names: tuple[str, ...] = (), **kwargs: object) -> str:
    shown = redact_call(["user", "pin"], args, kwargs, frozenset(names), WORDS)
    return redactor_of((args, kwargs), shown).over(text)


def test_whatever_is_starred_out_where_arguments_are_shown_is_hidden() -> None:
    assert over("ann used 47110", "ann", 47110, names=("pin",)) == "ann used ***"
    assert over("{'api_key': 'sesame', 'n': 12345}", headers={"api_key": "sesame", "n": 12345}) == (
        "{'api_key': '***', 'n': 12345}"
    )
    assert over("one two, onetwo", password=["onetwo", {"deep": "two, "}]) == "one ******"


def test_the_longest_secret_is_hidden_first_and_short_ones_stand_in_any_text() -> None:
    assert over("abcdefgh abcd 12", token="abcd", secret="abcdefgh", password="12") == "*** *** 12"
    assert over("nothing to hide", "ann", user_name="nothing") == "nothing to hide"
    assert over("True None", password=True, token=None) == "True None"

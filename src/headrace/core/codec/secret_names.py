"""Which names probably stand for a secret, without a declaration.

A name is split into words: `dbPassword`, `X-Api-Key` and `card_number` all are two. Masking too much costs little,
showing too much may cost a lot. A word that is mostly harmless counts only in its usual position.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

WORDS = frozenset(
    {
        *("password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "jwt", "bearer", "authorization"),
        *("credential", "cookie", "apikey", "privatekey", "accesskey", "csrf"),
        *("cardnumber", "creditcard", "cvv", "cvc", "ssn", "socialsecurity", "iban", "accountnumber"),
    }
)
_AT_THE_END = frozenset({"key", "pin", "otp", "pan"})  # api_key, but not key_count
_ALONE = frozenset({"auth", "pass", "sessionid"})  # auth=("ann", "x"), but not auth_method
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")
_LONG = 5  # a word of this length also matches at the end of another: dbpassword, accesstoken


def words_of(added: Iterable[str] | None) -> frozenset[str]:
    """The words to match: the built-in ones and some more; with None, no word at all."""
    return frozenset() if added is None else WORDS | {"".join(_parts(word)) for word in added} - {""}


def looks_secret(name: str, value: Any, words: frozenset[str]) -> bool:
    """Whether to mask the value under this name. A bool is no secret, nor is a number of tokens."""
    if value is None or isinstance(value, bool):
        return False
    match = _suspected(name, words)
    return match == "one" or (match == "several" and not isinstance(value, int | float))


def mentions(text: str, words: frozenset[str]) -> bool:
    """Whether a name in this text looks secret, such as in the repr of a model."""
    return any(_suspected(name, words) != "none" for name in re.findall(r"[\w-]+", text))


@lru_cache(maxsize=4096)
def _suspected(name: str, words: frozenset[str]) -> Literal["none", "one", "several"]:
    if not words:
        return "none"
    parts = _parts(name[:200])
    whole = "".join(parts)
    if whole in _ALONE or (parts and parts[-1] in _AT_THE_END):
        return "one"
    runs = [*parts, *map("".join, pairwise(parts)), whole]
    if any(_is_one(run, words) for run in runs):
        return "one"
    plural = any(run.endswith("s") and (_is_one(run[:-1], words) or run == "keys") for run in runs)
    return "several" if plural else "none"


def _is_one(run: str, words: frozenset[str]) -> bool:
    return run in words or any(run.endswith(word) for word in words if len(word) >= _LONG)


def _parts(name: str) -> list[str]:
    return [part.casefold() for part in _PART.findall(name)]

"""Answers of bounded size: a client reads them into a context that costs money and is limited.

Long texts lose their middle, long lists their end, each with a note. Names and the first items stay.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_ANSWER = 60_000  # bytes of one answer
# Tried in turn until the answer fits: characters of a text, items of a list.
_BOUNDS = ((4_000, 200), (1_000, 100), (300, 40), (120, 15), (60, 5))
_MAX_DEPTH = 12


def encode(value: Any) -> str:
    """The value as JSON of at most `MAX_ANSWER` bytes."""
    plain = msgspec.to_builtins(value, enc_hook=repr, str_keys=True)
    for longest_text, longest_list in _BOUNDS:
        found = msgspec.json.encode(_shortened(plain, longest_text, longest_list, _MAX_DEPTH))
        if len(found) <= MAX_ANSWER:
            return found.decode()
    return '{"error": "the answer is too long; ask for fewer items with `limit`, or for one item"}'


def _shortened(value: Any, longest_text: int, longest_list: int, depth: int) -> Any:
    if isinstance(value, str):
        return _middle_cut(value, longest_text)
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return "… nested too deeply to show"
    if isinstance(value, dict):
        items = list(value.items())
        shown: Any = {
            _middle_cut(str(name), longest_text): _shortened(one, longest_text, longest_list, depth - 1)
            for name, one in items[:longest_list]
        }
        if len(items) > longest_list:
            shown["…"] = f"{len(items) - longest_list} more not shown"
        return shown
    shown = [_shortened(one, longest_text, longest_list, depth - 1) for one in value[:longest_list]]
    if len(value) > longest_list:
        shown.append(f"… {len(value) - longest_list} more not shown")
    return shown


def _middle_cut(text: str, longest: int) -> str:
    """The first and the last part of a long text: the last line of a traceback has the error."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters not shown … {text[-half:]}"

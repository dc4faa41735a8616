"""The Lua scripts, each put together from its file and the parts it is built on."""

from __future__ import annotations

import hashlib
import pkgutil
from collections.abc import Sequence
from functools import cache, cached_property

from headrace.engines.redis.script_linker import Piece, Statement, chamber_if, chamber_when_called, statements, weave

_PARTS = {
    "insert": ("births", "detours", "arrivals"),
    "plant": ("births", "detours", "arrivals", "kinship", "planting"),
    "admit": ("uniques", "births", "laning", "detours", "arrivals"),
    "exchange": ("strangers", "starting", "kin", "unusual", "settling", "overdue", "passing", "gatekeeper"),
    "remember": ("memory",),
    "reap": ("letters", "release", "kinship"),
    "judge": ("letters", "kinship"),
    "fail_damaged": ("letters", "kinship"),
    "disown": ("release",),
    "finished": ("keeping",),
    "pack_some": ("rows", "memory"),
    "clear": ("uniques", "kinship", "erase", "keeping", "hours"),
    "walk": ("search", "rows"),
    "size": ("search",),
    "get": ("rows",),
    "peek": ("heads", "rows"),
    "move": ("letters", "uniques", "kinship", "erase", "reopening", "search"),
    "gather": ("laning",),
    "rested_at": ("buckets",),
    "bonds": ("kinship",),
    "steps": ("memory",),
    "signal": ("memory",),
    "pack": ("search", "rows", "memory"),
    "unpack": ("uniques", "births", "memory"),
    "unpack_bonds": ("kinship", "planting"),
    "unpack_dead": ("letters",),
    "letters_find": ("letters",),
    "letters_groups": ("letters",),
    "letters_tallies": ("letters",),
    "letters_resolve": ("letters",),
    "letters_note": ("letters",),
    "letters_add": ("letters", "kinship"),
    "shelf_put": ("papers",),
    "shelf_remove": ("papers",),
    "shelf_drop": ("papers",),
    "letters_purge": ("letters", "unlettering"),
    "letters_remove": ("letters", "unlettering"),
    "letters_requeue": ("letters", "uniques", "births", "detours", "arrivals", "kinship", "reopening"),
    "census": ("kinship",),
    "own_page": ("kinship",),
    "cap": ("search",),
    "put": ("schedules",),
    "drop": ("schedules",),
    "due": ("schedules",),
    "fire": ("births", "detours", "arrivals", "schedules"),
}
# Parts that are seldom needed, with what each is built on, and when it is made: if a condition holds at its place in
# the script, or when it is first called. A part that is there already, further out, is not taken in again.
_IF_NEEDED = {
    "gatekeeper": (
        ("heads", "orders", "turns", "buckets", "limits", "laning"),
        "limit > 0 and ARGV[14] == '1' or asks_care()",
    ),
    "kin": (("letters", "kinship", "nursery"), "ARGV[15] == '1' or call('EXISTS', KIN) == 1"),
    "nursery": (("births", "detours", "arrivals", "planting"), "ARGV[15] == '1'"),
}
_WHEN_CALLED: dict[str, tuple[str, ...]] = {
    "detours": ("uniques", "laning"),
    "overdue": (),
    "strangers": (),
    "unusual": ("letters",),
}


class Script:
    """A script, put together when it is first used: a program that only submits needs one of sixty."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def text(self) -> str:
        """All of it, with the library in front."""
        return weave(_pieces(("library", *_PARTS.get(self.name, ()), self.name), frozenset()))

    @cached_property
    def sha(self) -> str:
        """The name by which the server knows it once it has seen it."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


def load(name: str) -> Script:
    """The script of this name."""
    return Script(name)


def _pieces(parts: Sequence[str], around: frozenset[str]) -> list[Piece]:
    present = around.union(parts)
    found: list[Piece] = []
    for part in parts:
        if part in around:
            continue
        if part in _IF_NEEDED:
            below, condition = _IF_NEEDED[part]
            found.append(chamber_if(part, condition, [*_pieces(below, present), *_statements(part)]))
        elif part in _WHEN_CALLED:
            found.append(chamber_when_called(part, [*_pieces(_WHEN_CALLED[part], present), *_statements(part)]))
        else:
            found += _statements(part)
    return found


@cache
def _statements(name: str) -> list[Statement]:
    # pkgutil, since importlib.resources alone would take a tenth of the time of `import headrace`.
    data = pkgutil.get_data("headrace.engines.redis", f"scripts/{name}.lua")
    if data is None:
        raise FileNotFoundError(f"scripts/{name}.lua is missing from headrace.engines.redis")
    return statements(data.decode())

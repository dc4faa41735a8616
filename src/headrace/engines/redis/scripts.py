"""The Lua scripts, each put together from its file and the parts it is built on."""

from __future__ import annotations

import hashlib
import pkgutil
from typing import NamedTuple

_PARTS = {
    "insert": ("uniques", "births", "laning", "arrivals"),
    "plant": ("uniques", "births", "laning", "arrivals", "kinship", "planting"),
    "admit": ("uniques", "births", "laning", "arrivals"),
    "exchange": ("letters", "starting", "kin", "settling", "passing", "gatekeeper"),
    "remember": ("memory",),
    "reap": ("letters", "release", "kinship"),
    "judge": ("letters", "kinship"),
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
    "shelf_put": ("papers",),
    "shelf_remove": ("papers",),
    "shelf_drop": ("papers",),
    "letters_purge": ("letters", "unlettering"),
    "letters_remove": ("letters", "unlettering"),
    "letters_requeue": ("letters", "uniques", "births", "laning", "arrivals", "kinship", "reopening"),
    "census": ("kinship",),
    "own_page": ("kinship",),
    "cap": ("search",),
    "put": ("schedules",),
    "drop": ("schedules",),
    "due": ("schedules",),
    "fire": ("uniques", "births", "laning", "arrivals", "schedules"),
}
# A part that seldom is needed, with what it is built on and when that is: a plain claim would spend a third of its
# time only on making the functions.
_IF_NEEDED = {
    "gatekeeper": (
        ("heads", "orders", "turns", "buckets", "limits", "laning"),
        "limit > 0 and ARGV[14] == '1' or asks_care()",
    ),
    "kin": (("kinship", "nursery"), "ARGV[15] == '1' or call('EXISTS', KIN) == 1"),
    "nursery": (("uniques", "births", "laning", "arrivals", "planting"), "ARGV[15] == '1'"),
}


class Script(NamedTuple):
    """A script and the name by which the server knows it once it has seen it."""

    name: str
    text: str
    sha: str


def load(name: str) -> Script:
    """The script of this name, with the library in front."""
    text = "\n".join(_part(part) for part in ("library", *_PARTS.get(name, ()), name))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _part(name: str) -> str:
    if name not in _IF_NEEDED:
        return _read(name)
    parts, condition = _IF_NEEDED[name]
    body = "\n".join([*map(_part, parts), _read(name)])
    return f"local {name}\nif {condition} then\n{body}\nend"


def _read(name: str) -> str:
    # pkgutil, since importlib.resources alone would take a tenth of the time of `import headrace`.
    data = pkgutil.get_data("headrace.engines.redis", f"scripts/{name}.lua")
    if data is None:
        raise FileNotFoundError(f"scripts/{name}.lua is missing from headrace.engines.redis")
    # Comments are for us: the server need not be sent them.
    lines = (line for line in data.decode().splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(lines)

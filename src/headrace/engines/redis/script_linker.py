"""Links a script from statements, so that a call spends little time on creating functions.

The server creates every function of a script at each call: a third of the time of a call with one job. So a function or
a constant is placed where it is used: nowhere if nothing uses it, and inside a rarely executed part if only that part
does. A constant has a name in capitals; every other statement at the outermost level of a file stays where it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

_FUNCTION = re.compile(r"local function (\w+)")
_CONSTANTS = re.compile(r"local ([A-Z_]+(?:, [A-Z_]+)*) =")
_WORD = re.compile(r"(?<![\w)\]]\.)\b[A-Za-z_]\w*")  # except names of fields
# Beginnings of lines that do not begin a statement.
_GOES_ON = (" ", "end", "else", "}", ")")


class Statement(NamedTuple):
    """A statement at the outermost level of a file. A pure definition may be moved or left out."""

    text: str
    defines: frozenset[str]
    uses: frozenset[str]


class LazyBlock(NamedTuple):
    """Rarely executed statements, between the lines with their condition."""

    opening: str
    inside: Sequence[Piece]
    closing: str
    defines: frozenset[str] = frozenset()

    @property
    def uses(self) -> frozenset[str]:
        return _words(self.opening)


Piece: TypeAlias = Statement | LazyBlock


def statements(text: str) -> list[Statement]:
    """The statements of a file, without comments, which the server does not need."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("--"):
            continue
        if found and line.startswith(_GOES_ON):
            found[-1].append(line)
        else:
            found.append([line])
    return [_statement("\n".join(lines)) for lines in found]


def lazy_block_if(name: str, condition: str, inside: Sequence[Piece]) -> LazyBlock:
    """A part that gives `name` its value, created at its place in the script if the condition holds there."""
    return LazyBlock(f"local {name}\nif {condition} then", inside, "end")


def lazy_block_when_called(name: str, inside: Sequence[Piece]) -> LazyBlock:
    """A part that is created at the first call of the function `name`, and returns its value."""
    opening = f"local made_{name}\nlocal function {name}()\nif not made_{name} then made_{name} = (function()"
    return LazyBlock(opening, inside, f"end)() end\nreturn made_{name}\nend", frozenset((name,)))


def link(pieces: Sequence[Piece], spare: Sequence[Piece] = ()) -> str:
    """The script of these pieces. `spare` are earlier definitions that were not needed yet."""
    candidates = (*spare, *pieces)
    needed = _needed(candidates)
    lines: list[str] = []
    unused: list[Piece] = []
    for piece in candidates:
        if piece.defines and not piece.defines & needed:
            unused.append(piece)
        elif isinstance(piece, Statement):
            lines.append(piece.text)
        else:
            lines += (piece.opening, link(piece.inside, unused), piece.closing)
    return "\n".join(lines)


def _needed(pieces: Iterable[Piece]) -> set[str]:
    """The words used outside of lazy blocks, by fixed statements and by the definitions these need."""
    left: list[Piece] = []
    needed: set[str] = set()
    for piece in pieces:
        if piece.defines:
            left.append(piece)
        else:
            needed |= piece.uses
    while found := [piece for piece in left if piece.defines & needed]:
        left = [piece for piece in left if not piece.defines & needed]
        needed.update(*(piece.uses for piece in found))
    return needed


def _statement(text: str) -> Statement:
    defines: frozenset[str] = frozenset()
    if function := _FUNCTION.match(text):
        defines = frozenset(function.groups())
    elif constants := _CONSTANTS.match(text):
        defines = frozenset(constants[1].split(", "))
    return Statement(text, defines, _words(text))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))

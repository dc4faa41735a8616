"""How scripts are put together: every function stands where it is used, and nothing changes its meaning by moving."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.engines.redis import script_loader
from headrace.engines.redis.script_linker import (
    LazyBlock,
    Piece,
    lazy_block_if,
    lazy_block_when_called,
    link,
    statements,
)
from tests.support.cases import check_each

_GIVEN = re.compile(r"local (?:function )?(\w+(?:, \w+)*)")
_DEFINED = re.compile(r"^local function (\w+)", re.MULTILINE)
_OWN = re.compile(r"function \w*\(([^)]*)\)|local (?!function)([\w, ]+)|for ([\w, ]+) in")
_CALLED = re.compile(r"(?<![\w.:])(\w+)\(")
_SCRIPTS = Path(script_loader.__file__).with_name("scripts")
_FILES = {str(path.relative_to(_SCRIPTS)): path.read_text() for path in _SCRIPTS.rglob("*.lua")}
_PARTS = {part for parts in script_loader._PARTS.values() for part in parts}
_PARTS |= {part for parts, _ in script_loader._IF_NEEDED.values() for part in parts}
_PARTS |= {part for parts in script_loader._WHEN_CALLED.values() for part in parts}
_FUNCTIONS = {name for text in _FILES.values() for name in _DEFINED.findall(text)}


def test_what_nothing_uses_is_left_out() -> None:
    text = (
        "local function a() end\nlocal function b() a() end\nlocal X = 1\nlocal Y, Z = 2, 3\nlocal state = {}\nreturn Z"
    )

    assert link(statements(text)) == "local Y, Z = 2, 3\nlocal state = {}\nreturn Z"


def test_what_is_used_by_what_is_used_stays_and_keeps_its_place() -> None:
    text = (
        "local X = {\n  a = 1,\n}\nlocal function a()\n  return X\nend\nlocal function b() return a() end\nreturn b()"
    )

    assert link(statements(text)) == text


def test_the_name_of_a_field_is_no_use_and_a_joined_text_is() -> None:
    text = "local function a() end\nlocal function b() end\nreturn x.a, x().a, x[1].a, x..b"

    assert link(statements(text)) == "local function b() end\nreturn x.a, x().a, x[1].a, x..b"


def test_comments_are_not_sent() -> None:
    assert link(statements("-- one\nlocal x = 1\n\n  -- two\nreturn x")) == "local x = 1\nreturn x"


def test_what_only_a_chamber_uses_is_made_inside() -> None:
    outside = statements("local function a() end\nlocal function b() a() end\nlocal function c() end")
    block = lazy_block_if("seldom", "c()", statements("seldom = b"))

    assert link([*outside, block, *statements("return seldom")]).splitlines() == [
        "local function c() end",
        "local seldom",
        "if c() then",
        "local function a() end",
        "local function b() a() end",
        "seldom = b",
        "end",
        "return seldom",
    ]


def test_what_is_used_outside_as_well_is_made_once() -> None:
    outside = statements("local function a() end")
    block = lazy_block_if("seldom", "true", statements("seldom = a"))

    assert link([*outside, block, *statements("return a")]).count("function a") == 1


def test_a_chamber_that_is_never_called_is_left_out() -> None:
    block = lazy_block_when_called("seldom", statements("return {}"))

    assert link([block, *statements("return 1")]) == "return 1"
    assert "made_seldom" in link([block, *statements("return seldom()")])


def test_a_part_that_is_there_is_not_taken_in_again() -> None:
    assert script_loader.load("jobs/insert_unique").text.count("local task_orders") == 1
    # Of the jobs that others spawn and of the claim under limits, apart.
    assert script_loader.load("jobs/exchange").text.count("local task_orders") == 2


def test_a_call_of_one_job_makes_few_functions() -> None:
    for name, most in (("jobs/insert", 12), ("jobs/exchange", 35)):
        outermost = [p._replace(inside=()) if isinstance(p, LazyBlock) else p for p in _pieces_of(name)]
        assert link(outermost).count("local function ") <= most, name


@pytest.mark.parametrize(
    "name",
    [
        *("jobs/insert", "flows/insert_graph", "jobs/insert_unique", "schedules/fire_schedules"),
        *("jobs/apply", "jobs/exchange"),
    ],
)
def test_nothing_that_moves_passes_another_thing_of_a_name_it_uses(name: str) -> None:
    assert _passed_names(_pieces_of(name), set()) == []


def _passed_names(pieces: Sequence[Piece], known: set[str]) -> list[str]:
    """The names that are given a second time before a block, into which a user of the first may have moved."""
    twice: list[str] = []
    passed: list[str] = []
    for piece in pieces:
        if isinstance(piece, LazyBlock):
            twice += passed + _passed_names(piece.inside, known.copy())
            passed = []
        else:
            given = _GIVEN.match(piece.text)
            names = given[1].split(", ") if given else []
            passed += [name for name in names if name in known]
            known.update(names)
    return twice


def test_every_function_that_is_called_is_in_sight() -> None:
    """A local function is undefined outside its block; the server would report that only when the line runs."""

    def check(name: str) -> None:
        assert _out_of_sight(_pieces_of(name), set()) == []

    check_each(sorted(name[4:-4] for name in _FILES if name.startswith("ops/")), check)


def _out_of_sight(pieces: Sequence[Piece], seen: set[str]) -> list[str]:
    missing: list[str] = []
    for piece in pieces:
        if isinstance(piece, LazyBlock):
            missing += _out_of_sight(piece.inside, seen.copy())
            seen.update(_DEFINED.findall(piece.opening))
        else:
            seen.update(_DEFINED.findall(piece.text))
            own = {name for found in _OWN.findall(piece.text) for name in re.split(r"[,\s]+", " ".join(found))}
            missing += [called for called in _CALLED.findall(piece.text) if called in _FUNCTIONS - seen - own]
    return missing


def _pieces_of(name: str) -> list[Piece]:
    return script_loader.load(name).pieces

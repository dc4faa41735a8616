"""The pages for contributors name files, functions and statements that exist.

A reference is a code span in one of these forms; paths are relative to `src/headrace` or to the repository:

    `engines/sql/`                                a folder
    `core/jobs/states.py`                         a file; `*` is allowed
    `runtime/jobs/task.py: Task.enqueue`          a definition in a file, several with commas between them
    `engines/postgres/sql/claim.sql: claim`       a named statement
    `Task.bind()`, `JobTemplate`                  a function, or a class, that is defined somewhere in the package

A definition is a function, a class, a method, an attribute or a constant of a Python file, a function of a Lua file, or
a `-- name:` of an SQL file. Other code spans (keys, settings, shell) are not references.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.tools.page import ROOT, Page

PACKAGE = ROOT / "src/headrace"
FOLDER = ROOT / "docs/internals"
PAGES = {page.name: page for page in map(Page, sorted(FOLDER.glob("*.md")))}
_SUFFIXES = "py|lua|sql|md|toml|html|js|css"
_PATH = re.compile(rf"[\w.*-]+(?:/[\w.*-]+)*/|[\w.*/-]+\.(?:{_SUFFIXES})|Makefile")
_PLACED = re.compile(rf"([\w./-]+\.(?:{_SUFFIXES})): ([\w.]+(?:, [\w.]+)*)")
_CALLED = re.compile(r"([\w.]+)\(\)")
_CLASS = re.compile(r"[A-Z]\w*[a-z]\w*(?:\.\w+)*")


def found(path: str) -> list[Path]:
    return [each for root in (PACKAGE, ROOT) for each in root.glob(path.rstrip("/"))]


@functools.cache
def names_in(path: Path) -> frozenset[str]:
    text = path.read_text("utf-8")
    if path.suffix == ".sql":
        return frozenset(re.findall(r"^-- name: (\w+)", text, re.MULTILINE))
    if path.suffix == ".lua":
        return frozenset(one or other for one, other in re.findall(r"\bfunction ([\w.]+)|\b(\w+) = function", text))
    return frozenset(_python_names(ast.parse(text), "")) if path.suffix == ".py" else frozenset()


def _python_names(node: ast.AST, prefix: str) -> Iterator[str]:
    """What a module defines, and below a class its methods and attributes, also those that `__init__` sets."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef(name=name):
                yield prefix + name
                yield from _python_names(child, f"{prefix}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name
                if name == "__init__":
                    yield from (prefix + attribute for attribute in _set_on_self(child))
            case ast.Assign(targets=targets):
                yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name


def _set_on_self(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


@functools.cache
def names_anywhere() -> frozenset[str]:
    return frozenset(
        tail for path in PACKAGE.rglob("*.py") for name in names_in(path) for tail in (name, name.rpartition(".")[2])
    )


def missing(span: str) -> Iterator[str]:
    """What a code span refers to that does not exist."""
    if match := _PLACED.fullmatch(span):
        path, names = match[1], match[2].split(", ")
        if not found(path):
            yield f"{path}: there is no such file"
        else:
            defined = names_in(found(path)[0])
            yield from (f"{path}: it has no {name}" for name in names if name not in defined)
    elif _PATH.fullmatch(span):
        if not found(span):
            yield f"{span}: there is no such file or folder"
    elif (match := _CALLED.fullmatch(span)) and match[1] not in names_anywhere():
        yield f"{span}: no function of the package has this name"
    elif _CLASS.fullmatch(span) and span not in names_anywhere():
        yield f"{span}: no class of the package has this name"


def test_every_file_and_function_that_is_named_exists() -> None:
    assert len(PAGES) >= 4
    broken = [f"{name}: {each}" for name, page in PAGES.items() for span in page.spans for each in missing(span)]
    assert not broken, "\n".join(["these references lead nowhere:", *broken])


def test_no_reference_is_broken_over_two_lines() -> None:
    """It would not be read as one."""
    odd = [f"{name}: {line}" for name, page in PAGES.items() for line in page.prose.splitlines() if line.count("`") % 2]
    assert odd == []


def test_every_page_refers_to_code() -> None:
    """A change of the notation must not turn the test above into one that finds nothing to check."""
    counts = {name: sum(bool(_PLACED.fullmatch(span)) for span in page.spans) for name, page in PAGES.items()}
    assert {name for name, count in counts.items() if count < 5} == set()


@pytest.mark.parametrize(
    ("span", "told"),
    [
        ("core/jobs/moods.py", "core/jobs/moods.py: there is no such file or folder"),
        ("core/moods/", "core/moods/: there is no such file or folder"),
        ("core/moods/*.py", "core/moods/*.py: there is no such file or folder"),
        ("core/jobs/moods.py: State", "core/jobs/moods.py: there is no such file"),
        ("core/jobs/states.py: State, moods", "core/jobs/states.py: it has no moods"),
        ("runtime/jobs/task.py: Task.enqueue, Task.sing", "runtime/jobs/task.py: it has no Task.sing"),
        ("engines/postgres/sql/claim.sql: claim, sing", "engines/postgres/sql/claim.sql: it has no sing"),
        ("engines/redis/scripts/lib/base.lua: flush, sing", "engines/redis/scripts/lib/base.lua: it has no sing"),
        ("Task.sing()", "Task.sing(): no function of the package has this name"),
        ("JobTemplates", "JobTemplates: no class of the package has this name"),
    ],
)
def test_a_reference_that_leads_nowhere_is_found(span: str, told: str) -> None:
    assert list(missing(span)) == [told]


def test_a_span_that_is_no_reference_is_left_alone() -> None:
    spans = ("{p}:jobs", "make test", "waiting", "ARGS", "url = ...", "-- name: claim", "redis://")
    assert [span for span in spans if list(missing(span))] == []


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Page\n\n`core/one.py`, `core/jobs/states.py: State`, `core/two.py: f` and `sing()`.\n", "utf-8")
    broken = [each for span in Page(path).spans for each in missing(span)]
    assert [each.partition(":")[0] for each in broken] == ["core/one.py", "core/two.py", "sing()"]

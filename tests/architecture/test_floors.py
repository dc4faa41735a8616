"""The architecture holds: floors, no circles, short files, modules that say what they own.

The floors and the purity of the core are import-linter contracts in pyproject.toml. The rest is checked here
from the source alone, so it also sees imports that never run: inside functions, under TYPE_CHECKING, by name.
"""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.cases import check_each
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
PYPROJECT = ROOT / "pyproject.toml"
MAX_LINES = 400


def sources(src: Path) -> dict[str, Path]:
    """Every module below `src` by its dotted name; a package is named by its `__init__.py`."""
    named = {}
    for path in sorted(src.rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def references(tree: ast.Module, package: str) -> Iterator[str]:
    """Dotted names a module imports anywhere in its text, `a.b.c` for `from a.b import c`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                # One dot means the package itself, each further dot the one above.
                above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                base = ".".join([*above, *([module] if module else [])])
                yield from (f"{base}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def import_graph(src: Path) -> dict[str, set[str]]:
    """Module -> modules of ours it imports. `a.b.c` that is no module is a name inside module `a.b`."""
    modules = sources(src)
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        graph[name] = set()
        for reference in references(tree_of(path), package):
            target = reference if reference in modules else reference.rpartition(".")[0]
            if target in modules:
                graph[name].add(target)
    return graph


def circle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """One circle of imports, importer before imported, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # graphlib lists a circle from the imported to the importer.
        return list(reversed(error.args[1]))
    return []


def run_contracts(package_root: Path) -> subprocess.CompletedProcess[str]:
    """The project's import-linter contracts, applied to the headrace package found in `package_root`.

    A process of its own, because import-linter finds the package by importing its parents, and this process
    may have the real one loaded already.
    """
    check = "import sys; from importlinter.cli import lint_imports; "
    check += "sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True, no_logo=True))"
    return subprocess.run(
        [sys.executable, "-c", check, str(PYPROJECT)],
        cwd=package_root,
        env={**os.environ, "PYTHONPATH": str(package_root), "NO_COLOR": "1", "COLUMNS": "110"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def build(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


MODULES = sources(SRC)
# The folders and modules of the real one, all empty: the contracts name them.
TOY_HOUSE = {str(path.relative_to(SRC)): "" for path in MODULES.values()} | {
    "headrace/core/clock.py": "import time\n",
    "headrace/app/config.py": "import headrace.engines.sqlite.engine\n",
}


def test_every_floor_imports_only_the_floors_below_and_the_core_stays_pure() -> None:
    result = run_contracts(SRC)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_contracts_keep_a_sound_house(tmp_path: Path) -> None:
    house = build(tmp_path, TOY_HOUSE)
    result = run_contracts(house)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text", "contract"),
    [
        ("core/jobs/states.py", "import headrace.engines\n", "A floor imports only the floors below it"),
        ("errors.py", "from headrace import core\n", "A floor imports only the floors below it"),
        ("app/late.py", "def go():\n    import headrace.cli\n", "A floor imports only the floors below it"),
        ("cli/main.py", "import headrace.testing\n", "A floor imports only the floors below it"),
        ("cellar.py", "", "A floor imports only the floors below it"),
        ("core/jobs/states.py", "import headrace.core.metrics\n", "Folders of the core import only those below them"),
        ("engines/redis/url.py", "import headrace.engines.sqlite\n", "Engines do not know each other"),
        (
            "runtime/jobs/job.py",
            "import headrace.runtime.worker\n",
            "Folders of the runtime import only those below them",
        ),
        ("app/jobs/jobs.py", "import headrace.app.app\n", "Folders of the app import only those below them"),
        ("runtime/jobs/job.py", "import headrace.engines.sqlite.engine\n", "Only app.config imports an engine"),
        ("core/novelty.py", "", "Folders of the core import only those below them"),
        ("core/jobs/states.py", "import time\n", "The core does no I/O and never reads a clock"),
        ("core/jobs/states.py", "import os.path\n", "The core does no I/O and never reads a clock"),
        ("core/clock.py", "import sqlite3\nimport time\n", "The core does no I/O and never reads a clock"),
    ],
)
def test_the_contracts_name_a_breach(tmp_path: Path, file: str, text: str, contract: str) -> None:
    result = run_contracts(build(tmp_path, TOY_HOUSE | {f"headrace/{file}": text}))
    assert result.returncode != 0
    assert f"{contract} BROKEN" in result.stdout, result.stdout + result.stderr


def test_no_circle_of_imports_even_inside_functions_or_for_types_only() -> None:
    circle = circle_in(import_graph(SRC))
    assert not circle, "circle of imports: " + " -> ".join(circle)


@pytest.mark.parametrize(
    "text",
    [
        "import headrace.a\n",
        "from headrace.a import thing\n",
        "from headrace import a\n",
        "from . import a\n",
        "from .a import thing\n",
        "def late():\n    from headrace.a import thing\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from headrace.a import Thing\n",
        "import importlib\ndef late():\n    return importlib.import_module('headrace.a')\n",
    ],
)
def test_a_circle_is_seen_however_it_is_written(tmp_path: Path, text: str) -> None:
    files = {"headrace/__init__.py": "", "headrace/a.py": "import headrace.b\n", "headrace/b.py": text}
    circle = circle_in(import_graph(build(tmp_path, files)))
    assert set(circle) == {"headrace.a", "headrace.b"}


def test_a_module_that_imports_from_the_package_that_reexports_it_is_a_circle(tmp_path: Path) -> None:
    files = {
        "headrace/__init__.py": "from headrace.a import x\n",
        "headrace/a.py": "from headrace import y\n",
    }
    assert set(circle_in(import_graph(build(tmp_path, files)))) == {"headrace", "headrace.a"}


def test_the_source_is_where_these_tests_look() -> None:
    assert {"headrace", "headrace.errors"} <= MODULES.keys()


def test_a_file_that_grows_past_its_limit_is_two_things() -> None:
    def check(name: str) -> None:
        lines = len(MODULES[name].read_text("utf-8").splitlines())
        assert lines < MAX_LINES, f"{lines} lines; split it by what it owns"

    check_each(MODULES, check)


def test_a_module_says_what_it_owns() -> None:
    def check(name: str) -> None:
        text = ast.get_docstring(tree_of(MODULES[name]))
        assert text, "it has no docstring: say what it owns and what it must not know"

    check_each(MODULES, check)


def test_the_core_is_handed_the_time_and_never_asks_for_it() -> None:
    def check(name: str) -> None:
        asked = [
            f"line {node.lineno}: {ast.unparse(node.func)}()"
            for node in ast.walk(tree_of(MODULES[name]))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"now", "utcnow", "today"}
            and ast.unparse(node.func.value)
            in {"datetime", "date", "datetime.datetime", "datetime.date", "dt.datetime"}
        ]
        assert not asked, f"it reads a clock: {asked}"

    check_each([name for name in MODULES if name.startswith("headrace.core")], check)

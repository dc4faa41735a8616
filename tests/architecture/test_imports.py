"""What a program loads that imports headrace, or enqueues a job: no more than it uses, so that it starts fast."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import headrace

SOURCE = Path(headrace.__file__).parents[1]
UNUSED = (
    *(
        "asyncio",
        "click",
        "concurrent",
        "email",
        "html",
        "http",
        "jinja2",
        "multiprocessing",
        "psycopg",
        "redis",
        "rich",
    ),
    *("shutil", "ssl", "subprocess", "tempfile", "tomllib"),
    *("headrace.cli", "headrace.contrib", "headrace.testing", "headrace.web", "headrace.runtime.worker"),
    *("headrace.engines.postgres", "headrace.engines.redis"),
)
ENQUEUE = """
from headrace import Headrace
app = Headrace("sqlite:///jobs.db")
@app.task
def work(number): pass
work.enqueue(1)
app.close()
"""


def loaded(program: str, folder: Path) -> set[str]:
    """The modules that this program has loaded at its end."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{program}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("program", ["from headrace import Headrace", ENQUEUE], ids=["import", "enqueue"])
def test_a_producer_loads_no_server_no_worker_and_no_other_engine(tmp_path: Path, program: str) -> None:
    assert loaded(program, tmp_path) & set(UNUSED) == set()


def test_an_engine_is_loaded_when_a_url_asks_for_it(tmp_path: Path) -> None:
    modules = loaded("from headrace import Headrace", tmp_path)
    assert {"headrace.app.app", "headrace.engines.protocol.core"} <= modules
    assert {"sqlite3", "headrace.engines.sqlite", "headrace.engines.sql"} & modules == set()


def test_help_and_completion_load_no_app(tmp_path: Path) -> None:
    modules = loaded("from headrace.cli import main\nmain(['--help'])", tmp_path)
    assert "headrace.cli.session" in modules
    assert {"headrace.app.app", "headrace.runtime", "headrace.engines.sqlite"} & modules == set()


def test_the_package_alone_loads_only_its_errors(tmp_path: Path) -> None:
    modules = {name for name in loaded("import headrace", tmp_path) if name.startswith("headrace")}
    assert modules == {"headrace", "headrace.errors"}


def test_type_checkers_and_python_find_every_public_name_in_the_same_module() -> None:
    tree = ast.parse(Path(headrace.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    checked = {alias.name: node.module for node in imports for alias in node.names}
    assert checked == vars(headrace)["_MODULE_OF"]
    errors = {name for name in headrace.__all__ if name not in checked}
    assert errors == {name for name in vars(headrace.errors) if name in headrace.__all__}


def test_an_editor_completes_every_public_name() -> None:
    assert set(headrace.__all__) <= set(dir(headrace))

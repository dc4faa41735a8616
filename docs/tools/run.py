"""Runs the Python blocks of a page, in order and in one namespace: `python -m docs.tools.run docs/tutorial.md`.

It works in the current folder, so start it in an empty one. A line that ends in `# -> value` is checked: the value is
what the expression gives or, after a print, what was printed; `...` stands for anything. Blocks marked as part of a
file are appended to it, and take effect if its module is imported already. URLs of servers lead to real ones.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import inspect
import io
import re
import sys
import tokenize
from pathlib import Path
from types import ModuleType
from typing import Any

from docs.tools import stand_ins
from docs.tools.page import Block, Page
from headrace import Headrace
from headrace.app.forking import _known as apps
from headrace.testing import VirtualClock

PROMISE = "-> "


def run(page: Page) -> int:
    """Run every Python block of the page; how many there were."""
    blocks = [_on_real_servers(block) for block in page.blocks if block.language == "python"]
    stand_ins.install("".join(block.text for block in blocks))
    before = set(apps)
    try:
        _run_all(blocks, page, _namespace())
    finally:
        for app in set(apps) - before:  # an example leaves that to the end of its process; its database goes before
            assert isinstance(app, Headrace)
            app.close()
    return len(blocks)


def _on_real_servers(block: Block) -> Block:
    return block._replace(text=stand_ins.on_real_servers(block.text))


def _run_all(blocks: list[Block], page: Page, namespace: dict[str, Any]) -> None:
    files: list[str] = []
    for block in blocks:
        if block.file:
            files.append(block.file)
            _add_to(Path(block.file), block, page)
            continue
        with _app_of(namespace, files).worker() if block.worker else contextlib.nullcontext():
            exec(_compiled(block, page), namespace)  # noqa: S102 - to run a page is what this is for
        _run_tests(namespace)
    for file in files:
        importlib.import_module(_module(Path(file)))


def _namespace() -> dict[str, Any]:
    """A module of its own, registered as such: dataclasses look their module up."""
    module = sys.modules["page"] = ModuleType("page")
    vars(module).update({_CHECK: check, _CAPTURE: capture})
    return vars(module)


def _app_of(namespace: dict[str, Any], files: list[str]) -> Any:
    """The app whose worker a block asks for: of the page, or of the file that was written last."""
    return namespace["app"] if "app" in namespace else importlib.import_module(Path(files[-1]).stem).app


def _run_tests(namespace: dict[str, Any]) -> None:
    """Call the tests a block defined, with what the fixtures of the pytest plugin would give them."""
    for name in [name for name in namespace if name.startswith("test_")]:
        test = namespace.pop(name)
        clock = VirtualClock()
        with Headrace("memory://", clock=clock) as app:
            given = {"headrace_app": app, "headrace_clock": clock}
            done = test(**{wanted: given[wanted] for wanted in inspect.signature(test).parameters})
            if inspect.iscoroutine(done):
                asyncio.run(done)


def _module(file: Path) -> str:
    return ".".join(file.with_suffix("").parts)


def _add_to(file: Path, block: Block, page: Page) -> None:
    compiled = _compiled(block, page)
    file.parent.mkdir(exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.write(block.text)
    module = sys.modules.get(_module(file))
    if module is not None:
        exec(compiled, vars(module))  # noqa: S102 - as above
    importlib.invalidate_caches()


# -- promises


_CHECK, _CAPTURE = "__check__", "__capture__"


def check(value: object, promised: str, line: int) -> None:
    """Compare a value with what the page says it is."""
    if not any(_matches(told, promised) for told in (repr(value), str(value))):
        raise AssertionError(f"line {line} promises {promised}, but it is {value!r}")


def capture(line: int, promised: str, *values: object, **how: Any) -> None:
    """Compare what is printed with what the page says."""
    out = io.StringIO()
    print(*values, **how, file=out)
    told = out.getvalue().rstrip("\n")
    if not _matches(told, promised):
        raise AssertionError(f"line {line} promises {promised}, but it prints {told}")


def _matches(told: str, promised: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, promised.split("..."))), told, re.DOTALL) is not None


def _compiled(block: Block, page: Page) -> Any:
    # Blank lines in front make tracebacks tell the line of the page.
    text = "\n" * (block.line - 1) + block.text
    tree = ast.parse(text, page.name)
    checked = _Promises(_promises(text)).visit(tree)
    return compile(ast.fix_missing_locations(checked), page.name, "exec", dont_inherit=True)


def _promises(text: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    return {line: said.removeprefix(PROMISE).strip() for line, said in comments.items() if said.startswith(PROMISE)}


class _Promises(ast.NodeTransformer):
    """Turns `expression  # -> value` into a check."""

    def __init__(self, promises: dict[int, str]) -> None:
        self._promises = promises

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        if self._promises:
            line, promised = min(self._promises.items())
            raise SyntaxError(f"line {line}: '-> {promised}' must stand behind an expression of its own")
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        promised = self._promises.pop(node.end_lineno or 0, None)
        if promised is None:
            return node
        said, line = ast.Constant(promised), ast.Constant(node.end_lineno)
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "print":
            call = ast.Call(_name(_CAPTURE), [line, said, *node.value.args], node.value.keywords)
        else:
            call = ast.Call(_name(_CHECK), [node.value, said, line], [])
        return ast.copy_location(ast.Expr(call), node)


def _name(text: str) -> ast.Name:
    return ast.Name(text, ast.Load())


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        count = run(Page(Path(argument).resolve()))
        sys.stdout.write(f"{argument}: {count} blocks ran\n")

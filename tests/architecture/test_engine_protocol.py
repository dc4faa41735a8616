"""The engine protocol stays small: what a new engine has to supply, by part, and how much each contract says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PROTOCOL = Path(__file__).parents[2] / "src" / "headrace" / "engines" / "protocol"
MOST_IN_CORE, MOST = 26, 78
MOST_SENTENCES = 2
SHARED = {"Bell", "WorkerLiveness"}  # implemented once, for all engines


def operations() -> dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The operations of each module of the protocol that an engine supplies."""
    found: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
    for path in sorted(PROTOCOL.glob("*.py")):
        classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        found[path.stem] = [
            node
            for kind in classes
            if kind.name not in SHARED
            for node in kind.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list
        ]
    return found


def test_an_engine_runs_jobs_with_few_operations() -> None:
    assert len(operations()["core"]) <= MOST_IN_CORE


def test_all_parts_together_stay_small() -> None:
    counts = {part: len(found) for part, found in operations().items() if found}
    assert sum(counts.values()) <= MOST, counts


EVERY = [(part, found) for part, each in operations().items() for found in each]


@pytest.mark.parametrize(("part", "operation"), EVERY, ids=[f"{part}.{found.name}" for part, found in EVERY])
def test_a_contract_is_two_sentences(part: str, operation: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """What is true after the call, also if nothing matched and if it is called twice."""
    text = ast.get_docstring(operation)
    assert text, "it has no contract"
    assert len(re.findall(r"[.?!](?=\s|$)", text)) <= MOST_SENTENCES, "that is two operations"

"""Which tasks a worker knows, by the names that it tells of itself, and which names are headrace's own."""

from __future__ import annotations

from collections.abc import Collection

RESERVED = "headrace."  # names of tasks of our own, which act with what only we know


def is_reserved(task: str) -> bool:
    """Whether the task is headrace's own. Every worker knows those; nobody else may enqueue them."""
    return task.startswith(RESERVED)


def knows(names: Collection[str], task: str) -> bool:
    """Whether a worker that tells these names could run this task. "jobs.*" are all functions of a module."""
    if task in names or is_reserved(task):
        return True
    return any(name.endswith(".*") and task.startswith(name[:-1]) for name in names)

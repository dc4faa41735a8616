"""The declared tasks of a store: workers write them, processes without the code read them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from headrace.core.tasks.declared import KIND, DeclaredTask, changed_documents, declared_in
from headrace.engines.protocol.engine import Engine
from headrace.errors import HeadraceError
from headrace.runtime.documents import documents_of
from headrace.runtime.jobs.task import Task

_FRESH = 10.0  # seconds until they are read again
_PAGE = 1000
_TRIES = 5


def declare(engine: Engine, tasks: Mapping[str, Task[..., Any, Any]]) -> list[str]:
    """Store these tasks as they are declared; returns the names of new and changed ones. Others do not change."""
    declared = {name: _declared(task) for name, task in tasks.items()}
    names = list(declared)
    for _ in range(_TRIES):  # another worker that starts at the same time may be quicker
        stored = [
            document
            for start in range(0, len(names), _PAGE)
            for document in engine.document_store.get(KIND, names[start : start + _PAGE])
        ]
        changed = changed_documents(declared, stored)
        if not changed or engine.document_store.put(changed):
            return [document.key for document in changed]
    return []


def _declared(task: Task[..., Any, Any]) -> DeclaredTask:
    return DeclaredTask(task.signature.positional, task.options.redact or (), task.options.index or ())


class DeclaredTasks:
    """The declared tasks of one store, read at most every ten seconds."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: Mapping[str, DeclaredTask] = {}
        self._until = 0.0

    def find(self, name: str) -> DeclaredTask | None:
        """The task of this name, as of the last seconds; None if no worker has declared it."""
        return self.all().get(name)

    def all(self) -> Mapping[str, DeclaredTask]:
        """All of them by name, as of the last seconds."""
        if time.monotonic() >= self._until:
            with contextlib.suppress(HeadraceError):  # names are missing then, and a job can still be shown
                self._known = self._read()
            self._until = time.monotonic() + _FRESH
        return self._known

    def _read(self) -> dict[str, DeclaredTask]:
        return declared_in(documents_of(self._engine.document_store, KIND))

"""Writes that are part of a caller's own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import Lease, NewJob
from headrace.core.jobs.steps import Step
from headrace.core.jobs.unique_rules import InsertResult, UniqueRule


class JoinedWrites(Protocol):
    """Writes in the open transaction of a caller's connection: they exist if, and only if, the caller commits."""

    def insert(
        self,
        connection: Any,
        jobs: Sequence[NewJob],
        *,
        unique: Sequence[UniqueRule | None] = (),
        edges: Sequence[Dependency] = (),
        flow: FlowRow | None = None,
    ) -> list[InsertResult]:
        """Insert like `JobEngine.insert`, always all or nothing; workers are woken after the commit.

        Until the commit, other inserts of these unique keys wait.
        """
        ...

    async def ainsert(
        self,
        connection: Any,
        jobs: Sequence[NewJob],
        *,
        unique: Sequence[UniqueRule | None] = (),
        edges: Sequence[Dependency] = (),
        flow: FlowRow | None = None,
    ) -> list[InsertResult]:
        """The same on an asynchronous connection."""
        ...

    def save_step(self, connection: Any, lease: Lease, step: Step | None) -> bool:
        """Store the step and its history like `JobEngine.save_step`; False if the lease is lost.

        Without a step, begin a transaction where the caller's library would, and raise InvalidJob if there is none.
        """
        ...

    async def asave_step(self, connection: Any, lease: Lease, step: Step | None) -> bool:
        """The same on an asynchronous connection."""
        ...

"""What a replay does not do: it runs a stored job anew, stores nothing, and ends where it would have to."""

from __future__ import annotations

from typing import NoReturn

from msgspec import Struct

from headrace.core.jobs.steps import Suspended


class ReplayEnd(Suspended):
    """Ends a replay. As with a suspension, a task that catches all errors must let it pass."""

    def __init__(self, reason: str) -> None:
        super().__init__(0, reason)


class Replaying(Struct, frozen=True):
    """Marks the context of a replayed job. `only_recorded` says why a step without a result does not run."""

    only_recorded: str | None = None

    def begin(self, name: str) -> None:
        """A step without a recorded result is about to run."""
        if self.only_recorded is not None:
            self.end(f"step {name!r} has no recorded result; {self.only_recorded}")

    def end(self, reason: str) -> NoReturn:
        raise ReplayEnd(reason)

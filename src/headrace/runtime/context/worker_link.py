"""How the context of a running job reaches its worker."""

from __future__ import annotations

from typing import Protocol

from headrace.core.jobs.records import Claim
from headrace.runtime.context.steps import StepStore
from headrace.runtime.context.stream import StreamLink


class WorkerLink(StepStore, StreamLink, Protocol):
    """How a context reaches its worker."""

    @property
    def worker(self) -> str: ...
    def renew(self, claim: Claim) -> bool:
        """Renew this one lease now; False if it is lost."""
        ...

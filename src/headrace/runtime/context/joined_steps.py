"""Steps that are stored in the transaction of a task's own connection, together with what the step wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.core.codec.encryption import Cipher
from headrace.core.jobs.records import Claim
from headrace.core.jobs.steps import Step
from headrace.engines.protocol.joined import JoinedWrites
from headrace.runtime.jobs.encryption import encrypted_step


class JoinedSteps:
    """Stores steps through connections of the task. `writes` is called on use, as not every store has them."""

    def __init__(self, writes: Callable[[], JoinedWrites], cipher: Cipher | None) -> None:
        self._writes = writes
        self._cipher = cipher

    def begin(self, connection: Any, claim: Claim) -> None:
        """Raise InvalidJob unless the connection can have a step in its transaction."""
        self._writes().save_step(connection, claim.lease, None)

    async def abegin(self, connection: Any, claim: Claim) -> None:
        await self._writes().asave_step(connection, claim.lease, None)

    def save(self, connection: Any, claim: Claim, step: Step) -> bool:
        """Store the step in the transaction of the connection; False if the lease is lost."""
        return self._writes().save_step(connection, claim.lease, encrypted_step(self._cipher, claim.id, step))

    async def asave(self, connection: Any, claim: Claim, step: Step) -> bool:
        stored = encrypted_step(self._cipher, claim.id, step)
        return await self._writes().asave_step(connection, claim.lease, stored)

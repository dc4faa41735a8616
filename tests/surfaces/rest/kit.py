"""A client of the REST API that says what it expects."""

from __future__ import annotations

from typing import Any

import httpx

from headrace.web.api.router import PREFIX
from tests.surfaces.web.client import Client


class Api(Client):
    """Asks below /api/v1."""

    def __call__(self, method: str, path: str, **how: Any) -> httpx.Response:
        return super().__call__(method, f"{PREFIX}{path}", **how)

    def ask(self, method: str, path: str, status: int = 200, **how: Any) -> Any:
        """What it answers with, which has to be of this status."""
        told = self(method, path, **how)
        assert told.status_code == status, told.text
        return told.json() if told.content else None

    def refused(self, method: str, path: str, status: int, **how: Any) -> tuple[str, str]:
        """The type of the problem and its detail."""
        told = self.ask(method, path, status, **how)
        assert told["status"] == status
        return told["type"].removeprefix("urn:headrace:"), told["detail"]

"""A client of the REST API that checks the status."""

from __future__ import annotations

from typing import Any

import httpx

from headrace.web.api.router import PREFIX
from tests.surfaces.web.client import Client


class Api(Client):
    """Sends requests below /api/v1."""

    def __call__(self, method: str, path: str, **how: Any) -> httpx.Response:
        return super().__call__(method, f"{PREFIX}{path}", **how)

    def ask(self, method: str, path: str, status: int = 200, **how: Any) -> Any:
        """The JSON of a response with this status."""
        response = self(method, path, **how)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def refused(self, method: str, path: str, status: int, **how: Any) -> tuple[str, str]:
        """The type of the problem and its detail."""
        answer = self.ask(method, path, status, **how)
        assert answer["status"] == status
        return answer["type"].removeprefix("urn:headrace:"), answer["detail"]

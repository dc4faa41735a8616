"""A client of an ASGI app in the same process: it can be anywhere, and needs no port."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import httpx

LOCAL = ("127.0.0.1", 50_000)
BEYOND = ("203.0.113.9", 50_000)


class Client:
    """Asks an ASGI app, from an address, with headers that go with every request."""

    def __init__(
        self,
        asgi: Any,
        *,
        host: str = "localhost:8080",
        at: tuple[str, int] = LOCAL,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._asgi = asgi
        self._base = f"http://{host}"
        self._at = at
        self._headers = dict(headers or {})

    def __call__(self, method: str, path: str, **how: Any) -> httpx.Response:
        return asyncio.run(self._ask(method, path, how))

    async def _ask(self, method: str, path: str, how: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self._asgi, client=self._at)
        async with httpx.AsyncClient(transport=transport, base_url=self._base, headers=self._headers) as client:
            return await client.request(method, path, **how)

    def get(self, path: str, **how: Any) -> httpx.Response:
        return self("GET", path, **how)

    def post(self, path: str, **how: Any) -> httpx.Response:
        return self("POST", path, **how)

    def delete(self, path: str, **how: Any) -> httpx.Response:
        return self("DELETE", path, **how)


def basic(name: str, password: str) -> dict[str, str]:
    """The header of basic authentication."""
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}

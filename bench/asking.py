"""Asks the web app of a store in this process, without a network: what is measured is what the server takes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import httpx

from headrace import Headrace
from headrace.web.asgi import make

_MOMENT = 2.0


@contextlib.asynccontextmanager
async def visiting(app: Headrace) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a web app that nobody has visited yet, a moment after it was started."""
    web = make(app, rate=None)
    web.warm_up()
    await asyncio.sleep(_MOMENT)
    transport = httpx.ASGITransport(web, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        yield client


async def ask(client: httpx.AsyncClient, path: str) -> tuple[float, httpx.Response]:
    """How many milliseconds the answer took, and the answer."""
    began = time.perf_counter()
    answer = await client.get(path)
    taken = 1000 * (time.perf_counter() - began)
    assert answer.status_code == 200, f"{path}: {answer.text}"
    return taken, answer

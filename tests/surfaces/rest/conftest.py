"""An app on a store of its own, of each engine, and its REST API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from tests.conformance.stores import empty_store
from tests.surfaces.rest.kit import Api


@pytest.fixture
def url(engine_name: str, tmp_path: Path) -> Iterator[str]:
    """An empty store of this engine."""
    with empty_store(engine_name, tmp_path) as url:
        yield url


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    with Headrace(url, heartbeat=2.0, shutdown_timeout=5.0) as app:
        yield app


@pytest.fixture
def api(app: Headrace) -> Api:
    return Api(app.asgi(rate=None))

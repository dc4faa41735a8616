"""An app on its own store, of each engine, and a client of its REST API."""

from __future__ import annotations

import pytest

from headrace import Headrace
from tests.surfaces.rest.kit import Api


@pytest.fixture
def api(app: Headrace) -> Api:
    return Api(app.asgi(rate=None))

"""An app on a store of its own, of each engine, and its REST API."""

from __future__ import annotations

import pytest

from headrace import Headrace
from tests.surfaces.rest.kit import Api


@pytest.fixture
def api(app: Headrace) -> Api:
    return Api(app.asgi(rate=None))

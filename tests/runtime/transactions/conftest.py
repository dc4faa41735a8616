"""A store that others share: the app, and connections of every kind that lend it their transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.transactions.lenders import LENDERS, Lender
from tests.support.engines import KINDS


@pytest.fixture(params=[name for name in KINDS if name in LENDERS])
def database(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(database: str, folder: Path) -> Iterator[str]:
    kind = KINDS[database]
    address = kind.create(folder)
    yield kind.url(address)
    kind.discard(address)


@pytest.fixture
def lender(database: str, lender_name: str, url: str) -> Iterator[Lender]:
    with LENDERS[database][lender_name](url) as lender:
        yield lender

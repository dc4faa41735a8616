"""Two stores, to move from one to the other; and a place where there is none yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.engines.protocol.engine import Engine
from tests.support.engines import KINDS, StoreUnderTest


@pytest.fixture
def make_store(folder: Path) -> Iterator[Callable[[str, str], StoreUnderTest]]:
    """Makes an empty store of an engine under a name."""
    with ExitStack() as at_end:

        def make(kind: str, name: str) -> StoreUnderTest:
            (folder / name).mkdir()
            return StoreUnderTest(kind, folder / name, at_end)

        yield make


@pytest.fixture
def source(make_store: Callable[[str, str], StoreUnderTest]) -> Engine:
    return make_store(next(iter(KINDS)), "source").open()


@pytest.fixture
def target_store(make_store: Callable[[str, str], StoreUnderTest]) -> StoreUnderTest:
    return make_store(next(reversed(KINDS)), "target")


@pytest.fixture
def target(target_store: StoreUnderTest) -> Engine:
    return target_store.open()


@pytest.fixture
def bare(engine_name: str, folder: Path) -> Iterator[Engine]:
    """A place for a store without tables."""
    (folder / "bare").mkdir()
    with ExitStack() as at_end:
        address = str(folder / "bare/q.db") if engine_name == "sqlite" else _bare_address(engine_name, at_end)
        engine = KINDS[engine_name].open(address)
        at_end.callback(engine.close)
        yield engine


def _bare_address(kind: str, at_end: ExitStack) -> str:
    from tests.support import servers  # a run on SQLite alone needs none

    address = servers.postgres_url() if kind == "postgres" else servers.redis_url()
    at_end.callback(servers.drop, address)
    return address

"""A store of each engine, and the engine opened on it: a test that asks for one runs once for each engine.

An engine that can't be had is an error in its tests, never a skip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.postgres.engine import PostgresEngine
from headrace.engines.protocol.engine import Engine
from headrace.engines.redis.engine import RedisEngine
from tests.support import servers
from tests.support.engines import StoreUnderTest
from tests.support.servers import RedisServer


@pytest.fixture
def store(engine_name: str, folder: Path) -> Iterator[StoreUnderTest]:
    with ExitStack() as at_end:
        yield StoreUnderTest(engine_name, folder, at_end)


@pytest.fixture
def engine(store: StoreUnderTest) -> Engine:
    return store.open()


@pytest.fixture
def target(engine_name: str, folder: Path) -> Iterator[Engine]:
    """A second, empty store of the same engine."""
    (folder / "target").mkdir()
    with ExitStack() as at_end:
        yield StoreUnderTest(engine_name, folder / "target", at_end).open()


@pytest.fixture
def redis_engine(engine: Engine) -> RedisEngine:
    assert isinstance(engine, RedisEngine)
    return engine


@pytest.fixture(scope="module")
def quiet_redis() -> Iterator[RedisServer]:
    """A server that no other test process uses: there it can be counted what a call costs."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def quiet_store(quiet_redis: RedisServer) -> Iterator[RedisEngine]:
    engine = RedisEngine(f"{quiet_redis.url}?prefix=quiet")
    yield engine
    engine.close()
    servers.redis_connection(quiet_redis.url).flushall()


@pytest.fixture
def open_engine() -> Iterator[Callable[..., PostgresEngine]]:
    """Opens PostgreSQL at a URL of the test's own."""
    with ExitStack() as at_end:

        def open_at(url: str, **how: Any) -> PostgresEngine:
            engine = PostgresEngine(url, **how)
            at_end.callback(engine.close)
            return engine

        yield open_at

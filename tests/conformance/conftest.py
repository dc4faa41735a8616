"""The engines under test. Every test that asks for `engine` or `store` runs once for each engine.

An engine that can't be had is an error in its tests, never a skip.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.engines.protocol import Engine
from tests.conformance.stores import StoreUnderTest


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short path: a Unix socket's name has room for about 100 characters, tmp_path takes most."""
    folder = Path(tempfile.mkdtemp(prefix="hr-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def store(engine_name: str, short_folder: Path) -> Iterator[StoreUnderTest]:
    with ExitStack() as at_end:
        yield StoreUnderTest(engine_name, short_folder, at_end)


@pytest.fixture
def engine(store: StoreUnderTest) -> Engine:
    return store.open()

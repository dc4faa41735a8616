"""SQLite without a name: the store goes with its app, only with its app, and never stays behind."""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engines.sqlite.engine import SqliteEngine
from headrace.errors import EngineUnavailable
from tests.support.builders import NOW, new_job, states
from tests.support.processes import ROOT, Child

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture
def engine() -> Iterator[SqliteEngine]:
    made = SqliteEngine(None)
    made.insert([new_job("job")], now=NOW)
    yield made
    made.close()


def test_the_store_is_gone_with_its_folder_when_it_is_closed(engine: SqliteEngine) -> None:
    folder = engine.store.path.parent
    engine.close()
    assert not folder.exists()


@needs_fork
def test_a_child_that_closes_the_engine_leaves_its_parent_the_store(engine: SqliteEngine) -> None:
    child = Child(lambda _: engine.close())
    assert child.hear() is None
    child.end()
    assert set(states(engine)) == {"job"}


def test_a_store_that_is_used_again_after_it_was_closed_is_private(engine: SqliteEngine) -> None:
    engine.close()
    before = os.umask(0)
    try:
        engine.insert([new_job("again")], now=NOW)
    finally:
        os.umask(before)
    assert stat.S_IMODE(engine.store.path.parent.stat().st_mode) == 0o700
    assert set(states(engine)) == {"again"}


def test_a_name_that_another_user_took_meanwhile_is_not_used(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.close()
    engine.store.path.parent.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 12345)
        with pytest.raises(EngineUnavailable, match="taken by another user"):
            engine.insert([new_job("job")], now=NOW)


def test_a_store_nobody_closed_goes_with_its_engine() -> None:
    engine = SqliteEngine(None)
    engine.insert([new_job("job")], now=NOW)
    folder = engine.store.path.parent
    engine.store.close()
    del engine
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("forks", [False, pytest.param(True, marks=needs_fork)])
def test_a_store_nobody_closed_goes_at_exit_and_not_at_a_childs(tmp_path: Path, forks: bool) -> None:
    program = f"""
import os, sys
from headrace import Headrace
app = Headrace("memory://")
app.task(name="idle")(lambda: None)
app.enqueue("idle")
if {forks}:
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    os.waitpid(pid, 0)
print(app.jobs.count())
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "1\n", run.stderr
    assert list(tmp_path.iterdir()) == []

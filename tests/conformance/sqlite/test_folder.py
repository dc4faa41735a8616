"""SQLite's folder beside the file: private, no place for links, and no loss when somebody clears it away."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engines.sqlite.engine import SqliteEngine
from headrace.engines.wakeup.local import SocketBell
from headrace.errors import EngineUnavailable
from tests.support.builders import LEASE, NOW, claim, ids, new_job, states, worker_row
from tests.support.waiting import PATIENCE

needs_links = pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are followed on this system")


@pytest.fixture
def engine(folder: Path) -> Iterator[SqliteEngine]:
    made = SqliteEngine(folder / "q.db", durability="off")
    made.insert([new_job("job")], now=NOW)
    yield made
    made.close()


def test_a_worker_whose_folder_was_cleared_away_goes_on(engine: SqliteEngine) -> None:
    held = engine.register_worker(worker_row())
    bell = engine.listen("work")
    while bell.wait(0):
        pass
    shutil.rmtree(engine.store.folder)
    assert ids(claim(engine)) == ["job"]
    assert engine.reap(9, now=NOW) == []
    assert [job.id for job in engine.reap(9, now=NOW + LEASE)] == ["job"]
    engine.insert([new_job("next")], now=NOW)
    assert bell.wait(PATIENCE)
    bell.close()
    held.close()


def test_a_worker_can_sign_on_and_listen_where_the_folder_was_cleared_away(engine: SqliteEngine) -> None:
    shutil.rmtree(engine.store.folder)
    held = engine.register_worker(worker_row())
    assert os.listdir(engine.store.folder) == [f"{worker_row().id}.alive"]
    held.close()
    shutil.rmtree(engine.store.folder)
    bell = engine.listen("work")
    assert isinstance(bell, SocketBell)
    bell.close()


def test_missing_folders_of_the_file_are_created(folder: Path) -> None:
    engine = SqliteEngine(folder / "no" / "such" / "q.db", durability="off")
    engine.insert([new_job("job")], now=NOW)
    assert states(engine) == {"job": "pending"}
    assert (folder / "no" / "such" / "q.db").exists()
    engine.close()


def test_a_process_that_comes_after_the_clearing_works_beside_those_before(engine: SqliteEngine, folder: Path) -> None:
    shutil.rmtree(engine.store.folder)
    late = SqliteEngine(folder / "q.db", durability="off")
    for number in range(20):
        (engine, late)[number % 2].insert([new_job(f"j{number}")], now=NOW)
    late.close()
    assert len(states(engine)) == 21


def test_the_folder_and_what_is_in_it_are_for_one_user(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        engine = SqliteEngine(tmp_path / "new" / "q.db")
        held = engine.register_worker(worker_row())
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in engine.store.folder.iterdir()}
    assert modes == {"writer_lock": 0o600, f"{worker_row().id}.alive": 0o600}
    assert stat.S_IMODE(engine.store.folder.stat().st_mode) == 0o700
    held.close()
    engine.close()


@needs_links
def test_a_link_in_the_place_of_the_turnstile_is_refused_and_what_it_leads_to_untouched(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "q.db.d").mkdir()
    (tmp_path / "q.db.d" / "writer_lock").symlink_to(victim)
    with pytest.raises(EngineUnavailable, match="a link is in the place"):
        SqliteEngine(tmp_path / "q.db").insert([new_job("job")], now=NOW)
    assert not victim.exists()


@needs_links
def test_a_link_in_the_place_of_a_workers_file_is_refused_and_what_it_leads_to_untouched(
    engine: SqliteEngine, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (engine.store.folder / f"{worker_row().id}.alive").symlink_to(victim)
    with pytest.raises(EngineUnavailable, match="a link is in the place"):
        engine.register_worker(worker_row())
    assert engine.reap(9, now=NOW) == []
    assert victim.read_text() == "precious"


def test_a_folder_of_another_user_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "q.db.d")

    engine = SqliteEngine(tmp_path / "q.db")
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(EngineUnavailable, match="must run as one user"):
        engine.insert([new_job("job")], now=NOW)

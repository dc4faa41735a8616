"""A backup has the archive too, of every engine, and a restore brings it back."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.testing import VirtualClock, drain
from tests.support.engines import empty_store

pytestmark = pytest.mark.every_engine
WEEK = 8 * 86_400
MakeApp = Callable[..., Headrace]


@pytest.fixture
def make_app(folder: Path) -> Iterator[MakeApp]:
    """Makes an app on an empty store. One of Redis has its archive in a file."""
    clock = VirtualClock()
    with contextlib.ExitStack() as at_end:

        def make(kind: str, name: str, **settings: Any) -> Headrace:
            (folder / name).mkdir()
            url = at_end.enter_context(empty_store(kind, folder / name))
            if kind == "redis":
                settings = {"archive_url": f"sqlite:///{folder / name}/archive.db", **settings}
            app = at_end.enter_context(Headrace(url, clock=clock, **settings))
            app.task(name="double")(lambda number: 2 * number)
            return app

        yield make


def _fill(app: Headrace) -> tuple[list[str], str]:
    """Four jobs that are archived, and one that is not."""
    jobs = [app.enqueue("double", number) for number in range(4)]
    drain(app)
    assert isinstance(app.clock, VirtualClock)
    app.clock.advance(WEEK)
    app.lifecycle.archive(dry_run=False)
    return [job.id for job in jobs], app.enqueue("double", 9).id


def test_the_archive_comes_back_with_the_jobs(make_app: MakeApp, engine_name: str, folder: Path) -> None:
    source, target = make_app(engine_name, "source"), make_app(engine_name, "target")
    archived, kept = _fill(source)
    taken = source.admin.backup(folder / "copy.db")
    assert (taken.jobs, taken.archived) == (1, 4)
    done = target.admin.restore(folder / "copy.db")
    assert (done.jobs, done.archived, done.left_out) == (1, 4, 0)
    assert (target.jobs.count(), target.jobs.count(archived=True)) == (1, 4)
    assert sorted(job.id for job in target.jobs.find(archived=True)) == sorted(archived)
    old = target.jobs.get(archived[3])
    assert (old.archived, old.result(), [entry.event for entry in old.history()]) == (
        *(True, 6),
        ["submit", "claim", "succeed"],
    )
    assert target.jobs.get(kept).state == "pending"
    again = target.admin.restore(folder / "copy.db", replace=True)
    assert (again.archived, target.jobs.count(archived=True)) == (4, 4)


def test_the_archive_is_left_out_on_request(make_app: MakeApp, engine_name: str, folder: Path) -> None:
    source, target = make_app(engine_name, "source"), make_app(engine_name, "target")
    _fill(source)
    taken = source.admin.backup(folder / "copy.db", archive=False)
    assert (taken.jobs, taken.archived) == (1, 0)
    done = target.admin.restore(folder / "copy.db")
    assert (done.jobs, done.archived, target.jobs.count(archived=True)) == (1, 0, 0)


@pytest.mark.engines("redis")
def test_a_store_without_an_archive_reports_what_it_left_out(make_app: MakeApp, folder: Path) -> None:
    source, target = make_app("sqlite", "source"), make_app("redis", "target", archive_url=None)
    _fill(source)
    source.admin.backup(folder / "copy.db")
    done = target.admin.restore(folder / "copy.db")
    assert (done.jobs, done.archived, done.left_out) == (1, 0, 4)


@pytest.mark.engines("sqlite")
def test_the_file_of_a_store_has_no_archive_in_it(make_app: MakeApp, folder: Path) -> None:
    source, target = make_app("sqlite", "source"), make_app("sqlite", "target")
    _fill(source)
    source.admin.backup(folder / "copy.db")
    target.admin.restore(folder / "copy.db")
    with contextlib.closing(sqlite3.connect(target.engine.url.partition(":///")[2])) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'headrace_archive'").fetchone() == (0,)
    with Headrace(f"sqlite:///{folder}/copy.db") as opened:  # a backup that is used as a store
        assert opened.admin.backup(folder / "of the copy.db").archived == 0

"""A URL names a store that can be, or is refused by an error that says what is wrong with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.app import config
from headrace.app.config import open_engine
from headrace.core.clock import SystemClock
from headrace.core.settings.settings import Settings
from headrace.core.urls import redacted_url
from headrace.errors import ConfigError
from tests.support.waiting import PATIENCE


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("sqlite:///jobs%00.db", "NUL"),
        ("sqlite:///", "names no file"),
        ("sqlite:////", "names no file"),
        ("sqlite://jobs.db", "should look like"),
        ("sqlite:///jobs.db?mode=ro", "should look like"),
        ("mongodb://host/jobs", "is not known"),
        ("postgresql+psycopg://host/jobs", "is not known"),
        ("", "is not known"),
        ("postgresql:jobs", "should look like"),
        ("postgresql://host/jobs?connections=0", "connections=0 must be"),
        ("postgresql://host/jobs?no_such=1", "no_such"),
    ],
)
def test_a_url_that_names_no_store_is_refused_with_the_rule_it_breaks(url: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=f"url: .*{rule}"):
        open_engine(Settings(url=url), SystemClock())


@pytest.mark.parametrize(
    ("url", "kind", "shown"),
    [
        ("memory://", "SqliteEngine", None),
        ("sqlite:////nowhere/jobs.db", "SqliteEngine", "sqlite:////nowhere/jobs.db"),
        ("postgresql://ann:swordfish@db.invalid/jobs", "PostgresEngine", "postgresql://ann@db.invalid/jobs"),
        ("postgres://db.invalid/jobs?schema=crew", "PostgresEngine", "postgresql://db.invalid/jobs?schema=crew"),
        ("redis://:swordfish@cache.invalid/3", "RedisEngine", None),
        ("rediss://cache.invalid/0", "RedisEngine", None),
        ("valkey://cache.invalid/0", "RedisEngine", None),
    ],
)
def test_the_scheme_names_the_engine_and_nothing_is_reached_before_it_is_used(
    url: str, kind: str, shown: str | None
) -> None:
    engine = open_engine(Settings(url=url))
    assert type(engine).__name__ == kind
    assert "swordfish" not in engine.url
    if shown is not None:
        assert engine.url == shown
    engine.close()


def test_settings_reach_the_engine() -> None:
    engine = open_engine(Settings(url="postgresql://db.invalid/jobs", auto_migrate=False), SystemClock())
    assert isinstance(engine.clock, SystemClock)
    assert vars(engine)["_auto_migrate"] is False


_WITHOUT = """
import sys
sys.modules[{driver!r}] = None
from headrace import HeadraceError
from headrace.app.config import open_engine
from headrace.core.settings.settings import Settings
try:
    open_engine(Settings(url={url!r}))
except HeadraceError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("postgresql://ann:swordfish@db/jobs", "psycopg", "headrace[postgres]"),
        ("redis://ann:swordfish@cache/0", "redis", "headrace[redis]"),
    ],
)
def test_a_driver_that_is_not_installed_is_reported_by_the_name_of_the_extra(url: str, driver: str, extra: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(driver=driver, url=url)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
        env={"PYTHONPATH": "src"},
        timeout=PATIENCE,
    )
    assert done.stdout.startswith("ConfigError url")
    assert "install" in done.stdout
    assert extra in done.stdout
    assert "swordfish" not in done.stdout


def test_sqlite_needs_no_driver() -> None:
    script = """
import sys
sys.modules["psycopg"] = sys.modules["redis"] = None
import headrace
headrace.Headrace("memory://").close()
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
        env={"PYTHONPATH": "src"},
        timeout=PATIENCE,
    )
    assert done.stdout == "fine\n"


# -- passwords


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/jobs", "postgresql://db/jobs"),
        ("postgresql://ann@db:5432/jobs", "postgresql://ann@db:5432/jobs"),
        ("postgresql://ann:swordfish@db:5432/jobs", "postgresql://ann:***@db:5432/jobs"),
        ("redis://:swordfish@cache:6379/0", "redis://:***@cache:6379/0"),
        ("postgresql://ann:sword@fish@db/jobs", "postgresql://ann:***@db/jobs"),
        ("sqlite:////srv/jobs.db", "sqlite:////srv/jobs.db"),
        ("memory://", "memory://"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert redacted_url(url) == shown


@pytest.mark.parametrize(
    "url", ["postgress://ann:swordfish@db/jobs", "mysql://ann:swordfish@db/jobs", "amqp://:swordfish@queue"]
)
def test_a_url_of_an_unknown_kind_is_reported_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="is not known") as caught:
        open_engine(Settings(url=url))
    assert "swordfish" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/jobs?user=ann&password=swordfish", "postgresql://db/jobs?user=ann&password=***"),
        ("postgresql://db/jobs?sslpassword=swordfish&schema=a", "postgresql://db/jobs?sslpassword=***&schema=a"),
        ("postgresql://ann:sword/fish@db/jobs", "postgresql://ann:***@db/jobs"),
        ("postgresql://ann:sword?fish@db/jobs", "postgresql://ann:***@db/jobs"),
        ("postgresql://ann:sword#fish@db/jobs", "postgresql://ann:***@db/jobs"),
        ("postgresql://ann:swordfish@[::1/jobs", "postgresql://ann:***@[::1/jobs"),
        ("postgresql://ann:sword℀fish@db/jobs", "postgresql://ann:***@db/jobs"),
    ],
)
def test_a_url_is_shown_without_its_password_however_it_is_written(url: str, shown: str) -> None:
    assert redacted_url(url) == shown


def test_printed_settings_have_no_password() -> None:
    settings = Settings(url="postgresql://ann:swordfish@db/jobs", archive_url="postgresql://db/old?password=swordfish")
    for shown in (str(settings), repr(settings), str(settings.shown())):
        assert "postgresql://ann:***@db/jobs" in shown
        assert "swordfish" not in shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:swordfish@[::1/jobs",
        "redis://:swordfish@[::1/0",
        "mongodb://ann:swordfish@[::1/jobs",
        "postgresql://ann:sword℀fish@db℀/jobs",
    ],
)
def test_a_url_that_can_not_be_split_is_refused_without_its_password(url: str) -> None:
    try:
        shown = open_engine(Settings(url=url)).url
    except ConfigError as error:
        shown = str(error)
    assert "sword" not in shown


@pytest.mark.parametrize(
    ("quota", "cpus"),
    [("max 100000", 64), ("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1), ("9900000 100000", 64)],
)
def test_auto_respects_the_cpu_quota_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cpus: int
) -> None:
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    monkeypatch.setattr(config, "_CPU_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    assert config.find_settings({"concurrency": "auto"}).settings.concurrency == cpus


@pytest.mark.parametrize("text", [None, "", "many", "1 0", "1 2 3"])
def test_without_a_quota_all_cpus_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    if text is not None:
        (tmp_path / "cpu.max").write_text(text)
    monkeypatch.setattr(config, "_CPU_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    assert config.find_settings({"concurrency": "auto"}).settings.concurrency == 64

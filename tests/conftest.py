"""What every test shares: the tiers, the engines a test runs on, an empty store, an app on it, a shell.

A test that uses `engine_name`, by whatever fixture, runs once for each engine of engines.KINDS. Marks steer it:

- `engines("sqlite")`: it is about this engine, or one engine tells as much as three.
- `slow`: it belongs to `make test-slow`; with `slow_on("postgres")`, on this engine. Above the seam, which the
  conformance suite has proven, every engine but the first is slow: what meets it in a way of its own says
  `every_engine`.
- Of a conformance test with many cases, all but the first are slow on PostgreSQL: SQLite runs the same statements.
- `needs("dead_letters")`: of an engine more than the core; an engine that has less leaves the test out.
- `timed`: it measures time, and so runs alone, after the others.
"""

from __future__ import annotations

import gc
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from headrace import Headrace
from headrace.runtime.events import handlers
from headrace.runtime.worker import idle
from tests.support import servers
from tests.support.command_line import Shell, open_shell
from tests.support.engines import (
    KINDS,
    close_kept_connections,
    copy_tables_into_memory_stores,
    empty_store,
    kind_of,
    read_events_past_other_tests,
)

CONFORMANCE = Path(__file__).parent / "conformance"
CORE = CONFORMANCE / "core"  # the toy engine proves that these need only the core
LIKE_SQLITE = ("postgres", "toy")  # PostgreSQL runs the same statements, and the toy the same rules
ABOVE_THE_SEAM = [Path(__file__).parent / folder for folder in ("runtime", "faults", "surfaces")]

# The same examples and the same storms in every run: a change that is taken in passes tomorrow, too.
SEED = os.environ.get("HEADRACE_TEST_SEED") or "1"

# No deadline per example: a slow moment of a busy machine is not a bug. A failure prints how to repeat it.
settings.register_profile("headrace", deadline=None, print_blob=True, derandomize=SEED == "1")
settings.load_profile("headrace")

# A script that started the tests may have had Ctrl-C ignored, by them and by every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Workers and handlers of the tests never look by themselves: a ring that is missed shows.
idle._LONGEST = handlers._LONGEST_WAIT = 3600.0


sys.modules["uvloop"] = None  # type: ignore[assignment]  # as if it were not installed; test_uvloop.py is about it

copy_tables_into_memory_stores()
read_events_past_other_tests()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: it works while another one waits for a server, or for time to pass."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (usable or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """One PostgreSQL and one Redis serve all test processes: they are started here and named to each."""
    node.workerinput["servers"] = servers.start_for_all(KINDS)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        _keep_temporary_files_together(config)
    else:
        _keep_from_children(config)
    servers.adopt(getattr(config, "workerinput", {}).get("servers", {}))


def _keep_from_children(config: pytest.Config) -> None:
    """Close the pipes to pytest-xdist in forked children: while one of them lives, it would not see that we died."""
    (channel,) = (plugin.channel for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "channel"))
    pipes = channel.gateway._io
    numbers = [pipes.infile.fileno(), pipes.outfile.fileno()]

    def close() -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in numbers:
            os.dup2(nothing, number)
        os.close(nothing)

    os.register_at_fork(after_in_child=close)


def _keep_temporary_files_together(config: pytest.Config) -> None:
    """One temporary folder for all processes, which goes at the end: killed workers leave files behind."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # tmp_path stays: a failure may need it
    folder = tempfile.mkdtemp(prefix="hr-")
    os.chmod(folder, 0o711)  # the servers may run as another user
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even load the files in which the tier that is run has no test; there are hundreds."""
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text("utf-8")
    has_none = _runs_only_timed(config) and "pytest.mark.timed" not in text
    return has_none or (_leaves_out_slow(config) and "\npytestmark = pytest.mark.slow\n" in text) or None


# As the Makefile says them; with another expression all files are read.
def _runs_only_timed(config: pytest.Config) -> bool:
    return config.option.markexpr in ("not slow and timed", "slow and timed")


def _leaves_out_slow(config: pytest.Config) -> bool:
    return config.option.markexpr in ("not slow and timed", "not slow and not timed")


@pytest.hookimpl(tryfirst=True)  # before the tests that the command does not ask for are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a conformance test with many cases, all but the first are slow on an engine that is like SQLite."""
    seen = set()
    for item in items:
        if isinstance(item, pytest.Function) and item.path.is_relative_to(CONFORMANCE):
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            engine = parameters.get("engine_name")
            if engine in LIKE_SQLITE and "sqlite" in KINDS and len(parameters) > 1:
                if (case := (item.parent, item.originalname, engine)) in seen:
                    item.add_marker(pytest.mark.slow)
                seen.add(case)


def pytest_collection_finish() -> None:
    """Thousands of tests are no garbage: without this every collection would look at them again."""
    gc.collect()
    gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine_name" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("engines")
        names = [name for name in (KINDS if mark is None else mark.args) if name in KINDS]
        if mark is None and metafunc.definition.path.is_relative_to(CORE):
            names.append("toy")
        needs = {need for mark in metafunc.definition.iter_markers("needs") for need in mark.args}
        names = [name for name in names if (has := kind_of(name).has) is None or needs.issubset(has)]
        slow = {name for name in names if _is_slow(metafunc, name, is_first=name == names[0])}
        if _leaves_out_slow(metafunc.config) and len(slow) < len(names):
            names = [name for name in names if name not in slow]
        marks = {name: [pytest.mark.slow] if name in slow else [] for name in names}
        metafunc.parametrize("engine_name", [pytest.param(name, marks=marks[name]) for name in names])


def _is_slow(test: pytest.Metafunc, name: str, *, is_first: bool) -> bool:
    is_above = any(test.definition.path.is_relative_to(folder) for folder in ABOVE_THE_SEAM)
    is_slow = is_above and not is_first and not test.definition.get_closest_marker("every_engine")
    if mark := test.definition.get_closest_marker("slow_on"):
        is_slow |= name in mark.args
    return is_slow


def pytest_sessionfinish() -> None:
    """End the servers, if any was started; those that are left when a run is cut short have a keeper of their own."""
    close_kept_connections()
    servers.stop_all()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: a Unix socket's name has room for about 100 characters, tmp_path takes most."""
    folder = Path(tempfile.mkdtemp(prefix="hr-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(engine_name: str, folder: Path) -> Iterator[str]:
    """An empty store of this engine."""
    with empty_store(engine_name, folder) as url:
        yield url


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    with Headrace(url, heartbeat=2.0, shutdown_timeout=5.0, webhook_networks=["127.0.0.0/8"]) as app:
        yield app


@pytest.fixture
def chance() -> random.Random:
    """What happens by chance in a storm. HEADRACE_TEST_SEED=random tries another, a failure shows which."""
    seed = secrets.randbelow(1_000_000) if SEED == "random" else int(SEED)
    print(f"repeat it with HEADRACE_TEST_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """A prompt in a folder of its own."""
    with open_shell(monkeypatch, capsys) as shell:
        yield shell

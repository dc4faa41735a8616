"""`headrace copy`: its output, the state of both stores, and its errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.app.config import find_settings, open_engine
from headrace.app.transfer.move import StoreCopy
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.transfer import (
    JobExport,
    StoreStatus,
)
from headrace.engines.protocol.engine import Engine
from headrace.engines.sql.transfer import SqlTransfer
from headrace.errors import EngineUnavailable
from tests.runtime.transfer.store_contents import by_force, claim_from, contents, fill, without_nul
from tests.support.builders import new_job, schedule, states, succeed
from tests.support.command_line import Ran, Shell, finish, wait_for_line
from tests.support.engines import KINDS

JOBS = 60
FROM, TO = "sqlite:///from.db", "sqlite:///to.db"


def engine_of(url: str) -> Engine:
    return open_engine(find_settings({"url": url}).settings)


@pytest.fixture
def source(shell: Shell) -> Iterator[Engine]:
    engine = engine_of(FROM)
    fill(engine, JOBS)
    yield engine
    engine.close()


@pytest.fixture
def target(shell: Shell) -> Iterator[Engine]:
    engine = engine_of(TO)
    yield engine
    engine.close()


def copy(shell: Shell, *more: str) -> Ran:
    return shell("copy", FROM, TO, "--wait", "0", *more)


# -- success


def test_a_copy_prints_its_result_and_the_next_step(shell: Shell, source: Engine, target: Engine) -> None:
    ran = copy(shell)
    assert ran.code == 0
    first, *rest = ran.out.splitlines()
    assert first.startswith(f"{JOBS} jobs with ")
    assert f"copied to {target.url} and compared, in " in first
    assert any("jobs were still running; the new store runs them again" in line for line in rest)
    assert f"next: set HEADRACE_URL={target.url}, and restart" in rest[-2]
    assert rest[-1] == f"the old store stays closed: {source.url}"
    progress = ran.err.splitlines()
    assert progress[0].startswith(f"closing {source.url}: it accepts and starts no more jobs")
    assert f"copied {JOBS} of {JOBS} jobs" in progress
    assert f"compared {JOBS} of {JOBS} jobs" in progress
    assert contents(target) == without_nul(contents(source))
    assert target.transfer.store_status() is None
    refused = shell("--url", FROM, "enqueue", "x")
    assert refused.code == 2
    assert f"copied to {target.url}" in refused.err


def test_records_that_the_new_store_had_already_are_printed(shell: Shell, source: Engine, target: Engine) -> None:
    for number, engine in enumerate((source, target)):
        engine.schedule_store.put(schedule("nightly", created_at=number, updated_at=number, due_at=None), new=True)
    line = "schedule nightly was kept as it is there: it differs in created_at, updated_at"
    ran = copy(shell)
    assert ran.code == 0
    assert line in ran.out.splitlines()


def test_records_that_the_new_store_had_already_are_in_the_json(shell: Shell, source: Engine, target: Engine) -> None:
    for number, engine in enumerate((source, target)):
        engine.schedule_store.put(schedule("nightly", created_at=number, updated_at=number, due_at=None), new=True)
    record = copy(shell, "--json").json
    assert [(kept["what"], kept["id"]) for kept in record["kept"]] == [("schedule", "nightly")]
    assert record["different"] == 0


def test_a_copy_prints_its_result_as_json(shell: Shell, source: Engine, target: Engine) -> None:
    ran = copy(shell, "--json")
    assert (ran.code, ran.err) == (0, "")
    record = ran.json
    assert (record["from"], record["to"], record["status"]) == (source.url, target.url, "done")
    assert (record["jobs"], record["carried"], record["already_there"], record["different"]) == (JOBS, JOBS, 0, 0)
    assert {"history", "logs", "dead_letters", "bytes", "seconds", "still_running", "taken"} <= record.keys()
    counts = {(count["queue"], count["state"]): count["jobs"] for count in record["by_queue_and_state"]}
    assert counts == {(depth.queue, depth.state): depth.jobs for depth in target.queries.queue_counts()}


def test_the_same_command_again_says_that_it_is_done(shell: Shell, source: Engine, target: Engine) -> None:
    copy(shell)
    before = contents(target)
    again = copy(shell)
    assert again.code == 0
    assert again.out.startswith(f"nothing to do: the jobs of {source.url} were copied to {target.url} already")
    assert copy(shell, "--json").json == {"from": source.url, "to": target.url, "status": "done"}
    assert "nothing to do" in copy(shell, "--dry-run").out
    assert contents(target) == before


def test_a_dry_run_prints_the_plan_and_changes_nothing(shell: Shell, source: Engine) -> None:
    before = contents(source)
    ran = copy(shell, "--dry-run")
    assert ran.code == 0
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[0] == ["QUEUE", "STATE", "JOBS"]
    for depth in source.queries.queue_counts():
        assert [depth.queue, depth.state, str(depth.jobs)] in lines
    assert ["jobs", str(JOBS)] in lines
    assert {("history", "entries"), ("log", "lines"), ("dead", "letters")} <= {tuple(line[:2]) for line in lines}
    assert any(line[0] == "size" for line in lines)
    assert "has no tables yet; the copy creates them" in ran.out
    assert ran.out.endswith("nothing was changed\n")
    record = copy(shell, "--dry-run", "--json").json
    assert (record["jobs"], record["status"], record["target_has_tables"]) == (JOBS, "new", False)
    assert not (shell.folder / "to.db").exists()
    assert not (shell.folder / "to.db.d").exists()
    assert source.transfer.store_status() is None
    assert contents(source) == before


def test_a_used_store_is_refused_without_into_used(shell: Shell, source: Engine, target: Engine) -> None:
    target.insert([new_job("mine"), new_job("job-000001", created_at=5)])
    ran = copy(shell)
    assert (ran.code, ran.out) == (2, "")
    assert "is in use: it has 2 jobs" in ran.err
    assert "--into-used" in ran.err
    ran = copy(shell, "--into-used")
    assert ran.code == 0
    assert "1 of them were copied earlier" in ran.out
    assert "1 job was not copied, because the id exists there: job-000001" in ran.out
    assert target.queries.count(Filter()).jobs == JOBS + 1


def test_running_jobs_are_waited_for(shell: Shell, source: Engine, target: Engine) -> None:
    source.queries.move(Filter(states=(State.RUNNING,)), Trigger.CANCEL, 1000)
    source.insert([new_job("slow", queue="slow")])
    [claim] = claim_from(source, "slow")
    process = shell.start("copy", FROM, TO, "--wait", "10m")
    wait_for_line(process, "waiting for 1 running job to finish")
    source.exchange([succeed(claim)], None)
    ran = finish(process)
    assert ran.code == 0
    assert "no job is running" in ran.err
    assert "still running" not in ran.out
    assert states(target)["slow"] is State.COMPLETED


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sqlite"])
def test_a_password_is_never_shown(shell: Shell, source: Engine, kind: str) -> None:
    address = KINDS[kind].create(Path())
    try:
        password = address.partition("://")[2].partition("@")[0].rpartition(":")[2]
        assert len(password) >= 8
        for more in (("--dry-run",), ("--wait", "0"), ("--wait", "0")):
            ran = shell("copy", FROM, KINDS[kind].url(address), *more)
            assert ran.code == 0
            assert password not in ran.out + ran.err
        store_status = source.transfer.store_status()
        assert store_status is not None
        assert password not in store_status.other
        refused = shell("--url", FROM, "enqueue", "x")
        assert password not in refused.err
        assert store_status.other in refused.err
    finally:
        KINDS[kind].discard(address)


def test_a_bar_is_drawn_on_a_terminal(shell: Shell, source: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ran = copy(shell)
    assert ran.code == 0
    assert "copying" in ran.err
    assert f"copied {JOBS} of {JOBS} jobs" not in ran.err


# -- errors


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("copy",), "FROM"),
        (("copy", FROM), "give the target store"),
        (("copy", FROM, TO, "--wait", "long"), "'long' is not a time"),
        (("copy", "--reopen", FROM, TO), "--reopen takes FROM alone"),
        (("copy", "--reopen", FROM, "--dry-run"), "--reopen takes FROM alone"),
        (("copy", FROM, TO, "--url", FROM), "leave --url and --app out"),
        (("--app", "shop:app", "copy", FROM, TO), "leave --url and --app out"),
        (("copy", "mysql://here/db", TO), "'mysql://here/db' is not known"),
        (("copy", FROM, "mysql://u:secret@here/db"), "u:***@here/db' is not known"),
        (("copy", "sqlite:///nothing.db", TO), "there is no store at"),
        (("copy", "--reopen", "sqlite:///nothing.db"), "there is no store at"),
        (("copy", FROM, FROM), "are the same store"),
        (("copy", FROM, "memory://"), "gone when its process ends"),
    ],
)
def test_wrong_use_ends_with_2_and_changes_nothing(
    shell: Shell, source: Engine, arguments: tuple[str, ...], expected: str
) -> None:
    ran = shell(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err
    assert source.transfer.store_status() is None
    assert not (shell.folder / "to.db").exists()
    assert not (shell.folder / "nothing.db").exists()


def test_a_file_that_is_not_a_store_is_an_error(shell: Shell, source: Engine) -> None:
    (shell.folder / "to.db").write_text("this is not a database, and long enough to be looked at as one\n" * 20)
    ran = copy(shell)
    assert ran.code == 1
    assert "not an SQLite database" in ran.err
    assert source.transfer.store_status() is None


@pytest.mark.parametrize(("kind", "extra"), [("postgresql", "postgres"), ("redis", "redis")])
def test_the_error_for_a_missing_driver_says_what_to_install(
    shell: Shell, source: Engine, monkeypatch: pytest.MonkeyPatch, kind: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, f"headrace.engines.{extra}.engine", None)
    ran = shell("copy", FROM, f"{kind}://u:secret@localhost/0")
    assert ran.code == 2
    assert f"pip install 'headrace[{extra}]'" in ran.err
    assert "secret" not in ran.err


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sqlite"])
def test_an_unavailable_server_leaves_the_source_in_use(shell: Shell, source: Engine, kind: str) -> None:
    scheme = {"postgres": "postgresql"}.get(kind, kind)
    ran = shell("copy", FROM, f"{scheme}://u:secret@127.0.0.1:1/0")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert "secret" not in ran.err
    assert source.transfer.store_status() is None


def break_off_after(calls: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the third import fail with EngineUnavailable."""
    unpack, made = SqlTransfer.import_records, [0]

    def unpack_or_not(self: SqlTransfer, records: Any, origin: str | None = None) -> int:
        made[0] += bool(records) and isinstance(records[0], JobExport)
        if made[0] > calls:
            raise error
        return unpack(self, records, origin)

    monkeypatch.setattr(SqlTransfer, "import_records", unpack_or_not)


def test_a_copy_continues_after_the_server_was_unavailable(shell: Shell, source: Engine, target: Engine) -> None:
    with pytest.MonkeyPatch.context() as patch:
        break_off_after(1, EngineUnavailable("postgresql://x: gone"), patch)
        ran = copy(shell)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[-1] == (
        "error: postgresql://x: gone; jobs copied so far are safe: run the same command again to continue"
    )
    assert 0 < target.queries.count(Filter()).jobs < JOBS
    assert target.exchange([], None).claims == []
    assert "an earlier copy was interrupted; this one continues it" in copy(shell, "--dry-run").out
    assert copy(shell).code == 0
    assert contents(target) == without_nul(contents(source))


def test_ctrl_c_says_how_to_continue(shell: Shell, source: Engine, target: Engine) -> None:
    with pytest.MonkeyPatch.context() as patch:
        break_off_after(1, KeyboardInterrupt(), patch)
        ran = copy(shell)
    assert ran.code == 1
    assert [line for line in ran.err.splitlines() if line][-2:] == [
        "jobs copied so far are safe: run the same command again to continue",
        "stopped",
    ]
    assert copy(shell).code == 0


def test_differences_end_with_1_and_both_stores_stay_closed(
    shell: Shell, source: Engine, target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = StoreCopy.run

    def lose_one(self: StoreCopy, wait: float) -> Any:
        carried = run(self, wait)
        with by_force(target):
            target.queries.move(Filter(ids=("job-000000",)), Trigger.DELETE, 1)
        target.queries.pause_queue("paused", False)
        return carried

    monkeypatch.setattr(StoreCopy, "run", lose_one)
    ran = copy(shell)
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "job job-000000 (completed) is missing",
        "queue paused should be paused and is not",
    ]
    assert f"error: {target.url} differs from {source.url}: 2 differences" in ran.err
    assert f"headrace copy --reopen {target.url}" in ran.err
    result = copy(shell, "--json")
    assert (result.code, result.json["status"], result.json["different"]) == (1, "begun", 2)
    assert result.json["differences"][0] == {"what": "job", "id": "job-000000", "how": "(completed) is missing"}
    assert source.transfer.store_status() is not None
    assert target.transfer.store_status() is not None
    assert "may be incomplete" in shell("copy", "--reopen", TO).err
    assert shell("copy", "--reopen", TO, "--yes").code == 0
    assert target.transfer.store_status() is None


# -- reopening


def test_a_store_is_reopened_after_a_confirmation(shell: Shell, source: Engine, target: Engine) -> None:
    copy(shell)
    nobody = shell("copy", "--reopen", FROM)
    assert nobody.code == 2
    assert "add --yes" in nobody.err
    shell.answer("n\n")
    declined = shell("copy", "--reopen", FROM)
    assert declined.code == 1
    assert f"copied to {target.url} will exist twice" in declined.err
    assert source.transfer.store_status() is not None
    shell.answer("y\n")
    accepted = shell("copy", "--reopen", FROM)
    assert (accepted.code, accepted.out) == (0, f"{source.url} is open again\n")
    assert shell("--url", FROM, "enqueue", "x").code == 0
    again = shell("copy", "--reopen", FROM)
    assert (again.code, again.out) == (0, f"nothing to do: {source.url} is open\n")


def test_a_store_is_reopened_without_a_confirmation_with_yes(shell: Shell, source: Engine) -> None:
    source.transfer.set_status(StoreStatus("moved", "redis://there/0", 5))
    record = shell("copy", "--reopen", FROM, "--yes", "--json").json
    assert record == {"url": source.url, "status": {"kind": "moved", "other": "redis://there/0", "at": 5}}
    assert shell("copy", "--reopen", FROM, "--json").json == {"url": source.url, "status": None}

"""`headrace doctor` and `headrace migrate`: what is set, how the store is, and what is wrong."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import click
import msgspec

from headrace import __version__
from headrace.app.app import Headrace
from headrace.app.config import redacted_url
from headrace.cli.doctor_alerts import look_at_alerts
from headrace.cli.doctor_keys import look_at_keys
from headrace.cli.doctor_needs import unmet_needs
from headrace.cli.doctor_schedules import look_at_schedules
from headrace.cli.doctor_stale import look_at_stale
from headrace.cli.options import as_json_option, example, shared
from headrace.cli.session import Session, missing_file
from headrace.cli.show import Column, clean, paint, print_facts, print_json, print_table, say
from headrace.core.model import Notice
from headrace.core.states import State
from headrace.errors import ConfigError, HeadraceError

if TYPE_CHECKING:
    from headrace.runtime.spool import Spool
    from headrace.runtime.spool_desk import SpoolStats


class Report(msgspec.Struct):
    """What the doctor found. The names are those of the JSON."""

    ok: bool
    findings: list[str]
    remarks: list[str]
    versions: dict[str, str]
    app: str | None
    tasks: list[str]
    settings: dict[str, dict[str, Any]]
    engine: dict[str, str | int]
    workers: dict[str, int]
    queues: dict[str, int]
    spool: SpoolStats | None = None


@click.command("doctor", epilog=example("headrace doctor", "headrace --app shop.jobs:app doctor --json"))
@as_json_option
@shared
@click.pass_obj
def doctor(session: Session, as_json: bool) -> int:
    """Check the settings, the store, the workers and the queues. Ends with 1 if something is wrong."""
    report = _examine(session)
    if as_json:
        print_json(report)
    else:
        _print(report)
    return 0 if report.ok else 1


def _examine(session: Session) -> Report:
    report = Report(False, [], [], _versions(), None, [], {}, {}, {}, {})
    app = _open(session, report)
    if app is not None:
        report.app, report.tasks = session.app_name, sorted(app.tasks)
        report.settings = _settings(app)
        if missing := missing_file(app):
            report.remarks.append(f"there is no store at {missing} yet; the first job or worker creates it")
        else:
            _look_inside(app, report)
        if app.spool is not None:
            _look_at_spool(app.spool, report)
    report.ok = not report.findings
    return report


def _open(session: Session, report: Report) -> Headrace | None:
    """The app; if its code is broken the store alone, which can be looked at all the same."""
    try:
        return session.store(may_create=True)
    except ConfigError as error:
        report.findings.append(str(error))
    try:
        return Headrace(session.url)
    except ConfigError as error:
        if str(error) not in report.findings:
            report.findings.append(str(error))
        return None


def _look_inside(app: Headrace, report: Report) -> None:
    try:
        report.engine = app.engine.facts()
        for finding in app.admin.check():
            (report.remarks if finding.note else report.findings).append(str(finding))
        if (notice := app.engine.porter.notice()) is not None:
            _tell_notice(notice, report)
        _look_at_work(app, report)
        look_at_schedules(app, report.findings, report.remarks)
        look_at_stale(app, report.findings, report.remarks)
        look_at_alerts(app, report.findings, report.remarks)
        look_at_keys(app, report.findings, report.remarks)
        _look_at_archive(app, report)
        if waiting := app.dead.count():
            told = "1 dead letter is" if waiting == 1 else f"{waiting} dead letters are"
            report.remarks.append(f"{told} pending; look into them with `headrace dead groups`")
    except HeadraceError as error:
        report.findings.append(str(error))


def _look_at_archive(app: Headrace, report: Report) -> None:
    try:
        app.jobs.find(archived=True, ids=["nobody"], limit=1)
    except HeadraceError as error:
        report.findings.append(f"the archive can't be read, and finished jobs stay in the store: {error}")
        return
    if (last := app.engine.sweeper.last()) is not None and last.error is not None:
        report.findings.append(f"finished jobs stay in the store, since they could not be archived: {last.error}")


def _look_at_spool(spool: Spool, report: Report) -> None:
    try:
        report.spool = stats = spool.stats()
    except HeadraceError as error:
        report.findings.append(str(error))
        return
    report.findings += filter(None, [spool.check()])
    if stats.waiting and stats.error:
        report.findings.append(f"{stats.waiting} jobs wait in the spool since {stats.since}: {stats.error}")
    elif stats.waiting:
        report.remarks.append(f"{stats.waiting} jobs of the spool are being forwarded")
    if stats.waiting > stats.limit * 0.9:
        report.findings.append(f"the spool is nearly full; at {stats.limit} jobs (spool_limit) it takes no more")
    if stats.refused:
        report.findings.append(
            f"{stats.refused} jobs were refused by the server when they were forwarded, the last one with "
            f"{stats.refusal}; they are kept in the table `refused` of {stats.file}"
        )
    if stats.duplicates:
        report.remarks.append(f"{stats.duplicates} jobs of the spool were dropped: others came first with their ids")
    for store, count in stats.others.items():
        report.remarks.append(f"{count} jobs wait in the same spool for {store}; an app with that URL forwards them")


def _tell_notice(notice: Notice, report: Report) -> None:
    if notice.kind == "moved":
        report.findings.append(
            f"the jobs of this store were carried over to {notice.other}: nothing is enqueued or started here; set "
            "`url` to the new store, or bring this one back into use with `headrace copy --reopen`"
        )
    else:
        report.remarks.append(
            f"this store is being filled from {notice.other}: its workers begin when `headrace copy` is through; if "
            "that was cut off, run the same command again"
        )


def _look_at_work(app: Headrace, report: Report) -> None:
    workers = app.workers()
    silent = [worker for worker in workers if worker.silent]
    alive = [worker for worker in workers if worker not in silent]
    report.workers = {"alive": len(alive), "silent": len(silent)}
    for stats in app.queues():
        report.queues[stats.queue] = stats.pending
        if stats.pending and not stats.workers:
            report.findings.append(
                f"queue {stats.queue!r} has {stats.pending} pending jobs and no live worker; start one with "
                f"`headrace worker -q {stats.queue}`"
            )
        if stats.paused:
            report.remarks.append(f"queue {stats.queue!r} is paused, with {stats.pending} pending jobs")
    report.findings += unmet_needs(app)
    report.findings += _parked(app)


def _parked(app: Headrace) -> Iterator[str]:
    found = app.jobs.find(state=State.SCHEDULED, text="unknown_task", limit=1000)
    tasks = {job.task for job in found if (job.reason or "").startswith("unknown_task")}
    for task in sorted(tasks):
        yield f"jobs of task {task!r} are parked: no worker that saw them knows it; deploy one that registers it"


def _settings(app: Headrace) -> dict[str, dict[str, Any]]:
    values = app.settings.shown()
    for name in ("url", "archive_url"):
        values[name] = values[name] and redacted_url(values[name])
    return {
        name: {"value": value, "origin": app.settings_origin.get(name, "default")} for name, value in values.items()
    }


def _versions() -> dict[str, str]:
    found = {"headrace": __version__, "python": platform.python_version(), "system": platform.platform()}
    for package in ("msgspec", "click", "rich"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # frozen into an application, perhaps
            found[package] = "unknown"
    return found


def _print(report: Report) -> None:
    _title("Versions")
    print_facts([*report.versions.items(), ("interpreter", sys.executable)])
    if report.settings:
        _title("Settings")
        rows = [[name, _word(known["value"]), known["origin"]] for name, known in report.settings.items()]
        print_table((Column("NAME"), Column("VALUE", least=20), Column("FROM", least=12)), rows)
    if report.app:
        _title("App")
        print_facts([("app", report.app), ("tasks", ", ".join(report.tasks) or "none")])
    if report.engine:
        _title("Store")
        print_facts((name, str(value)) for name, value in report.engine.items())
        _title("Work")
        print_facts(
            [
                *((f"workers {name}", str(count)) for name, count in report.workers.items()),
                *((f"pending in {name}", str(count)) for name, count in report.queues.items()),
            ]
        )
    if report.spool:
        _title("Spool")
        print_facts(_spool_facts(report.spool))
    _print_verdict(report)


def _spool_facts(stats: SpoolStats) -> Iterator[tuple[str, str]]:
    yield "file", stats.file
    yield "waiting", f"{stats.waiting} of {stats.limit}" + (f", since {stats.since}" if stats.since else "")
    if stats.error:
        yield "last error", f"{stats.error} ({stats.error_at})"
    yield "refused", str(stats.refused)
    yield "duplicates", str(stats.duplicates)


def _print_verdict(report: Report) -> None:
    _title("Verdict")
    for remark in report.remarks:
        say(f"note: {clean(remark)}")
    for finding in report.findings:
        say(paint(f"wrong: {clean(finding)}", "red"))
    if report.ok:
        say(paint("all is well", "green"))


def _title(text: str) -> None:
    say(paint(text, bold=True) if text == "Versions" else "\n" + paint(text, bold=True))


def _word(value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, dict):
        return ",".join(f"{name}={weight}" for name, weight in value.items())
    return ",".join(value) if isinstance(value, tuple) else str(value)


@click.command("migrate", epilog=example("headrace migrate", "headrace --url sqlite:///jobs.db migrate --json"))
@as_json_option
@shared
@click.pass_obj
def migrate(session: Session, as_json: bool) -> None:
    """Bring the store's tables to the version this headrace works with."""
    engine = session.store(may_create=True).engine
    where = redacted_url(engine.url)
    applied = engine.migrate()
    current, _ = engine.schema()
    if as_json:
        print_json({"url": where, "applied": applied, "version": current})
    elif applied:
        for name in applied:
            say(f"applied {name}")
        say(f"the tables of {where} are now of version {current}")
    else:
        say(f"nothing to do: the tables of {where} are of version {current}, which is current")

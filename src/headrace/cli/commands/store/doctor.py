"""`headrace doctor` and `headrace migrate`: checks of settings and store; schema migration."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import click
import msgspec

from headrace import __version__
from headrace.app.app import Headrace
from headrace.app.config import unused_urls
from headrace.app.doctor import diagnose, spool
from headrace.cli.options import example
from headrace.cli.output import Column, clean, paint, print_facts, print_table, say
from headrace.cli.resource import Output, OutputCommand, line, lines
from headrace.cli.session import Session, missing_file
from headrace.core.health.findings import Finding
from headrace.core.urls import redacted_url
from headrace.errors import ConfigError, HeadraceError

if TYPE_CHECKING:
    from headrace.runtime.spool.queries import SpoolStats


class Report(msgspec.Struct):
    """The result of the checks. Field names are the JSON keys."""

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


@click.command(
    "doctor", cls=OutputCommand, epilog=example("headrace doctor", "headrace --app shop.jobs:app doctor --json")
)
@click.option("--all", "show_all", is_flag=True, help="Show all settings, also those with their defaults.")
def doctor(session: Session, show_all: bool) -> Output:
    """Check the settings, the store, the workers and the queues. Exits with 1 if something is wrong."""
    report = _run_checks(session)
    return Output(report, lambda: _print(report, show_all=show_all), int(not report.ok))


def _run_checks(session: Session) -> Report:
    report = Report(False, [], [], _versions(), None, [], {}, {}, {}, {})
    app = _open(session, report)
    if app is not None:
        report.app, report.tasks = session.app_name, sorted(app.tasks)
        report.settings = _settings(app)
        report.remarks += unused_urls(app.settings_origin, app.engine.url)
        if missing := missing_file(app):
            report.remarks.append(f"there is no store at {missing} yet; the first job or worker creates it")
        else:
            _check_store(app, report)
        report.spool = _spool_stats(app)
    report.ok = not report.findings
    return report


def _open(session: Session, report: Report) -> Headrace | None:
    """The app; if its code can't be imported, a bare app on the store."""
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


def _check_store(app: Headrace, report: Report) -> None:
    try:
        report.engine = app.engine.maintenance.facts().details
        silent = [worker.silent for worker in app.workers()]
        report.workers = {"alive": silent.count(False), "silent": silent.count(True)}
        report.queues = {stats.queue: stats.pending for stats in app.queues()}
        _add_findings(diagnose(app), report)
    except HeadraceError as error:
        report.findings.append(str(error))
        _add_findings(
            spool.findings(app.spool), report
        )  # the spool is a separate file, readable while the store is unavailable


def _add_findings(found: Iterable[Finding], report: Report) -> None:
    for finding in found:
        (report.remarks if finding.note else report.findings).append(str(finding))


def _spool_stats(app: Headrace) -> SpoolStats | None:
    try:
        return None if app.spool is None else app.spool.stats()
    except HeadraceError:  # already among the findings
        return None


def _settings(app: Headrace) -> dict[str, dict[str, Any]]:
    return {
        name: {"value": value, "origin": app.settings_origin.get(name, "default")}
        for name, value in app.settings.shown().items()
    }


def _versions() -> dict[str, str]:
    versions = {"headrace": __version__, "python": platform.python_version(), "system": platform.platform()}
    for package in ("msgspec", "click", "rich"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # for example in a frozen application
            versions[package] = "unknown"
    return versions


def _print(report: Report, *, show_all: bool) -> None:
    """The verdict first, then what it is based on."""
    _print_result(report)
    _title("Versions")
    print_facts([*report.versions.items(), ("interpreter", sys.executable)])
    if report.settings:
        _title("Settings")
        _print_settings(report.settings, show_all=show_all)
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


def _print_settings(settings: dict[str, dict[str, Any]], *, show_all: bool) -> None:
    shown = {name: one for name, one in settings.items() if show_all or one["origin"] != "default"}
    rows = [[name, _format_value(one["value"]), one["origin"]] for name, one in shown.items()]
    if rows:
        print_table((Column("NAME"), Column("VALUE", min_width=20), Column("FROM", min_width=12)), rows)
    if hidden := len(settings) - len(shown):
        say(f"{hidden} settings have their defaults; --all shows them")


def _spool_facts(stats: SpoolStats) -> Iterator[tuple[str, str]]:
    yield "file", stats.file
    yield "waiting", f"{stats.waiting} of {stats.limit}" + (f", since {stats.since}" if stats.since else "")
    if stats.error:
        yield "last error", f"{stats.error} ({stats.error_at})"
    yield "refused", str(stats.refused)
    yield "duplicates", str(stats.duplicates)


def _print_result(report: Report) -> None:
    if report.ok:
        say(paint("all is well", "green"))
    for finding in report.findings:
        say(paint(f"wrong: {clean(finding)}", "red"))
    for text in report.remarks:
        say(f"note: {clean(text)}")


def _title(text: str) -> None:
    say("\n" + paint(text, bold=True))


def _format_value(value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, dict):
        return ",".join(f"{name}={weight}" for name, weight in value.items())
    return ",".join(value) if isinstance(value, tuple) else str(value)


@click.command(
    "migrate", cls=OutputCommand, epilog=example("headrace migrate", "headrace --url sqlite:///jobs.db migrate --json")
)
def migrate(session: Session) -> Output:
    """Migrate the store's tables to the schema version of this headrace."""
    engine = session.store(may_create=True).engine
    url = redacted_url(engine.url)
    _, current, applied = engine.migrate()
    data = {"url": url, "applied": applied, "version": current}
    if not applied:
        return line(data, f"nothing to do: the tables of {url} are of version {current}, which is current")
    return lines(data, [*(f"applied {name}" for name in applied), f"the tables of {url} are now of version {current}"])

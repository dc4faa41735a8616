"""headrace in a Flask site: the app context around attempts, `flask jobs ...`, the dashboard.

    from headrace.contrib.flask import init_app

    init_app(site, jobs, dashboard="/background", auth=signed_in)

Public: `init_app`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

import click
from flask import Flask, request
from werkzeug.wrappers import Response

from headrace.app.app import Headrace
from headrace.errors import ConfigError
from headrace.runtime.context.current_job import JobContext

__all__ = ["init_app"]

if TYPE_CHECKING:
    from headrace.core.settings.setting_types import WebOptions

EXTENSION = "headrace"
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_called: list[Headrace] = []  # the app that `flask jobs` was called for


def init_app(
    site: Flask,
    jobs: Headrace,
    *,
    dashboard: str | None = None,
    command: str | None = "jobs",
    **options: Unpack[WebOptions],
) -> None:
    """Connect a Flask app with a Headrace app.

    Tasks run in the context of the site, as requests do. `command` is the name of the command line under `flask`.
    `dashboard` is the path of the dashboard and the REST API; options are those of `jobs.wsgi()`, such as `auth`.
    """
    if EXTENSION in site.extensions:
        raise ConfigError(f"init_app: the Flask app {site.name!r} has a Headrace app already")
    if options and dashboard is None:
        raise ConfigError(f"init_app: {', '.join(options)}: options are those of the dashboard; add dashboard='/path'")
    if dashboard is not None:
        _mount(site, jobs, dashboard, options)
    if command is not None:
        site.cli.add_command(_command(command, jobs))
    _push_context_around_attempts(site, jobs)
    site.extensions[EXTENSION] = jobs


def __getattr__(name: str) -> Any:
    if name == "app" and _called:  # for the command line: `--app headrace.contrib.flask:app`
        return _called[-1]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# -- attempts


def _push_context_around_attempts(site: Flask, jobs: Headrace) -> None:
    @jobs.around_attempt
    def in_context(job: JobContext) -> Iterator[None]:
        with site.app_context():
            yield


# -- the command line


def _command(name: str, jobs: Headrace) -> click.Command:
    def forward(arguments: tuple[str, ...]) -> None:
        from headrace.cli import main  # deferred: `flask run` needs none of it

        _called.append(jobs)
        sys.exit(main(["--app", f"{__name__}:app", *arguments]))

    return click.Command(
        name,
        callback=forward,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        add_help_option=False,
        help="Run a worker, look at jobs, operate queues: the command line of headrace.",
    )


# -- the dashboard


def _mount(site: Flask, jobs: Headrace, path: str, options: WebOptions) -> None:
    if not path.startswith("/") or not path.strip("/"):
        raise ConfigError(f"init_app: dashboard={path!r} should be a path such as '/background'")
    path, served = path.rstrip("/"), jobs.wsgi(**options)

    def dashboard(rest: str = "") -> Response:
        environ = dict(request.environ)
        environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + path
        environ["PATH_INFO"] = environ["PATH_INFO"].removeprefix(path)
        return Response.from_app(served, environ, buffered=True)

    for rule in (f"{path}/", f"{path}/<path:rest>"):
        site.add_url_rule(
            rule, "headrace", dashboard, methods=_METHODS, provide_automatic_options=False, merge_slashes=False
        )
    if (csrf := site.extensions.get("csrf")) is not None:
        csrf.exempt(dashboard)  # Flask-WTF; the dashboard has a check of its own

"""`headrace web`: serves the REST API and the dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headrace.app.surfaces import serve_web
from headrace.cli.options import example, log_options, shared
from headrace.cli.session import Session
from headrace.runtime.context.logs import configure_unless_done


@click.command(
    "web",
    epilog=example(
        "headrace web    # http://127.0.0.1:8080, only this machine",
        "HEADRACE_WEB_AUTH=ann:s3cret headrace web --host 0.0.0.0",
        "headrace web --token-file tokens.txt --read-only",
    ),
)
@click.option("--host", help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), help="The port to listen on.")
@click.option(
    "--auth", multiple=True, metavar="[ROLE=]USER:PASSWORD", help="Credentials; visible to other users of the machine."
)
@click.option(
    "--token",
    "tokens",
    multiple=True,
    metavar="[ROLE=][NAME:]TOKEN",
    help="Bearer token for programs; visible as well.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="File with one token per line; not visible to others.",
)
@click.option("--read-only/--writable", default=None, help="Refuse or allow changes.")
@log_options
@shared
@click.pass_obj
def web(
    session: Session,
    /,
    auth: tuple[str, ...],
    tokens: tuple[str, ...],
    token_file: str | None,
    **options: Any,
) -> int:
    """Serve the REST API and the dashboard until SIGTERM or Ctrl-C.

    An address that other machines can reach requires credentials. Give them in HEADRACE_WEB_AUTH or
    HEADRACE_WEB_TOKENS, or in the app's settings: every user of the machine can read a command line. A role is admin,
    viewer or worker; the default is admin.
    """
    app = session.store(may_create=True, with_tasks=True)
    level, form = options.pop("log_level"), options.pop("log_format")
    chosen = form or app.settings.log_format, level or app.settings.log_level
    configure_unless_done(*chosen, app.settings.secret_words, insist=bool(level or form))
    if token_file is not None:
        tokens += _tokens_in(token_file)
    given = {**options, "auth": auth or None, "tokens": tokens or None}
    return serve_web(app, {name: value for name, value in given.items() if value is not None})


def _tokens_in(path: str) -> tuple[str, ...]:
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--token-file: {path} can't be read: {error}") from None
    return tuple(line.strip() for line in lines if line.strip())

"""The command `headrace mcp`."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from headrace.cli.mcp import acting, reading
from headrace.cli.mcp.server import McpServer
from headrace.cli.mcp.tools import ToolContext
from headrace.cli.options import example, log_options, shared
from headrace.cli.session import Session
from headrace.runtime.context.logs import configure_unless_done


@click.command(
    "mcp",
    epilog=example("headrace mcp --app shop.jobs:app", "headrace mcp --url sqlite:///jobs.db --allow-actions"),
)
@click.option(
    "--allow-actions", is_flag=True, help="Also offer tools that requeue, retry, cancel, resolve, pause and resume."
)
@log_options
@shared
@click.pass_obj
def mcp(session: Session, allow_actions: bool, log_level: str | None, log_format: Any) -> None:
    """Serve the store to an AI assistant: the Model Context Protocol on stdin and stdout, until stdin ends.

    The assistant starts this command itself. Its tools read jobs, queues, workers, dead letters, metrics, alerts and
    schedules, with secrets redacted, and do dry runs. With --allow-actions it can change jobs; each change is recorded
    in the audit trail as `mcp`.
    """
    sink = sys.stdout.buffer
    with contextlib.redirect_stdout(sys.stderr):  # a print() in the app's code must not break the protocol
        app = session.store(with_tasks=True)
        chosen = log_format or app.settings.log_format, log_level or app.settings.log_level
        configure_unless_done(*chosen, app.settings.secret_words, insist=bool(log_level or log_format))
        server = McpServer(ToolContext(app), reading.tools, acting.tools, allow_actions=allow_actions)
        server.serve(sys.stdin.buffer, sink)

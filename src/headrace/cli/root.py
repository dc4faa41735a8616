"""The command `headrace` and its subcommands."""

from __future__ import annotations

import importlib

import click

from headrace import __version__
from headrace.cli.options import shared

_EPILOG = """\b
Examples:
  headrace demo
  headrace --app shop.jobs:app worker
  headrace enqueue add '[1, 2]' --wait 10
  headrace jobs --state failed
\b
The app is named with --app, HEADRACE_APP, or `app` under [tool.headrace] in pyproject.toml.
Commands that only read the store need no app: --url or HEADRACE_URL names the store; the default is
headrace.db in the current folder.
\b
Completion for your shell (also zsh_source, fish_source):
  eval "$(_HEADRACE_COMPLETE=bash_source headrace)"
"""

# Command name -> module.
_MODULES = {
    "demo": "demo.demo",
    "worker": "commands.workers.worker",
    "enqueue": "commands.jobs.enqueue",
    "jobs": "commands.jobs.jobs",
    "why": "commands.jobs.jobs",
    "signal": "commands.jobs.signal",
    "queues": "commands.queues",
    "tasks": "commands.tasks",
    "schedules": "commands.schedules",
    "flows": "commands.flows",
    "dead": "commands.dead_letters.dead",
    "alerts": "commands.alerts.alerts",
    "archive": "commands.retention.archive",
    "partitions": "commands.retention.archive",
    "stale": "commands.retention.stale",
    "lifecycle": "commands.retention.lifecycle",
    "workers": "commands.workers.workers",
    "web": "commands.web",
    "mcp": "mcp.mcp",
    "metrics": "commands.metrics",
    "events": "commands.events",
    "webhooks": "commands.webhooks",
    "top": "top.top",
    "doctor": "commands.store.doctor",
    "storage": "commands.store.maintenance",
    "check": "commands.store.maintenance",
    "backup": "commands.store.maintenance",
    "restore": "commands.store.maintenance",
    "optimize": "commands.store.maintenance",
    "checkpoint": "commands.store.maintenance",
    "migrate": "commands.store.doctor",
    "copy": "commands.store.copy",
    "bench": "commands.bench",
}


class _Commands(click.Group):
    """Imports a command on demand: loading all would cost a worker 5 MB."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _MODULES and cmd_name not in self.commands:
            self.add_command(getattr(importlib.import_module(f"headrace.cli.{_MODULES[cmd_name]}"), cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(
    "headrace",
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
)
@shared
@click.version_option(__version__, "--version", "-V", prog_name="headrace", message="%(prog)s %(version)s")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Background jobs that need nothing but a file. New here? Try: headrace demo"""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def load_all() -> click.Group:
    """The command with all subcommands loaded, in the order of `_MODULES`."""
    ctx = click.Context(root)
    loaded = {name: root.get_command(ctx, name) for name in _MODULES}
    root.commands = {name: command for name, command in loaded.items() if command is not None}
    return root

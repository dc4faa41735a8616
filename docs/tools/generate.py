"""Writes the parts of the docs that the code itself can tell, and the clients: `python -m docs.tools.generate`.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. A test compares; it never writes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator

import click

from docs.tools.clients.files import write_clients
from docs.tools.page import Page, pages
from headrace import errors
from headrace.cli.root import load_all
from headrace.core.jobs.states import TRANSITIONS, diagram
from headrace.web.api.resources import worker_protocol
from headrace.web.api.route_table import Endpoint, Table
from headrace.web.api.router import TABLES

_PART = re.compile(r"<!-- generated: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
_EVERYWHERE = ("--app", "--url", "--env-file", "--traceback")


def generated(page: Page) -> str:
    """The text of the page with its generated parts as they should be now."""
    return _PART.sub(_written, "\n".join(page.lines) + "\n")


def _written(match: re.Match[str]) -> str:
    return f"<!-- generated: {match[1]} -->\n\n{PARTS[match[1]]().strip()}\n\n<!-- end -->"


# -- states


def states_diagram() -> str:
    return f"```mermaid\n{diagram()}\n```"


def events_table() -> str:
    lines = ["| event | from | to | note |", "|---|---|---|---|"]
    for event, row in TRANSITIONS.items():
        lines.append(f"| `{event}` | {_listed(row.sources)} | {_listed(row.targets)} | {row.note} |")
    return "\n".join(lines)


def _listed(states: frozenset[str]) -> str:
    return ", ".join(sorted(states)) or "–"


# -- errors


def errors_tree() -> str:
    _, _, tree = (errors.__doc__ or "").partition("\n\n")
    return f"```text\n{tree.strip()}\n```"


# -- command line


def every_command(
    command: click.Command | None = None, path: tuple[str, ...] = ("headrace",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command by the words one types, in the order of the listing."""
    command = command or load_all()
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from every_command(child, (*path, name))


def cli_reference() -> str:
    return "\n\n".join(_command(path, command) for path, command in every_command() if len(path) > 1)


def _command(path: tuple[str, ...], command: click.Command) -> str:
    arguments = [_placeholder(parameter) for parameter in command.params if isinstance(parameter, click.Argument)]
    rest = ["[COMMAND]"] if isinstance(command, click.Group) else []
    usage = " ".join([*path, "[OPTIONS]", *arguments, *rest])
    parts = [f"{'#' * (len(path) + 1)} `{' '.join(path)}`", f"```text\n{usage}\n```", _prose(command.help or "")]
    own = [p for p in command.params if isinstance(p, click.Option) and not p.hidden and p.opts[0] not in _EVERYWHERE]
    if own:
        parts.append("\n".join(["| option | meaning |", "|---|---|", *map(_option, own)]))
    if examples := _examples(command):
        parts.append("\n".join(["```console", *(f"$ {line}" for line in examples), "```"]))
    return "\n\n".join(parts)


def _prose(text: str) -> str:
    paragraphs = [" ".join(part.split()) for part in text.replace("\b", "").split("\n\n")]
    return "\n\n".join(part for part in paragraphs if part)


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in sorted([*option.opts, *option.secondary_opts], key=len))
    value = "" if option.is_flag or option.count else f" `{_value(option)}`"
    meaning = [_prose(option.help or "")]
    if option.show_default:
        meaning.append(f"Default: {option.default}.")
    return f"| {names}{value} | {' '.join(filter(None, meaning))} |"


def _value(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "\\|".join(str(choice).lower() for choice in option.type.choices)
    return {"integer": "NUMBER", "integer range": "NUMBER", "float range": "NUMBER"}.get(option.type.name, "TEXT")


def _placeholder(argument: click.Argument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    if name.startswith("["):
        return name
    repeated = f"{name}..." if argument.nargs == -1 else name
    return repeated if argument.required else f"[{repeated}]"


def _examples(command: click.Command) -> list[str]:
    lines = (line.strip() for line in (command.epilog or "").splitlines())
    return [line for line in lines if line.startswith("headrace ")]


# -- the web


def rest_endpoints() -> str:
    return "\n\n".join(f"### {table.tag}\n\n{table.description}\n\n{_endpoints(table)}" for table in TABLES)


def _endpoints(table: Table) -> str:
    lines = ["| endpoint | role | |", "|---|---|---|"]
    for endpoint in table:
        lines.append(f"| `{endpoint.method} {endpoint.path}` | {endpoint.role} | {endpoint.summary} |")
    return "\n".join(lines)


def worker_requests() -> str:
    return "\n\n".join(_request(endpoint) for endpoint in worker_protocol.table)


def _request(endpoint: Endpoint) -> str:
    example = json.dumps(endpoint.example, indent=2)
    parts = [f"## `{endpoint.method} /api/v1{endpoint.path}`", endpoint.summary, endpoint.description]
    return "\n\n".join([*filter(None, parts), f"```json\n{example}\n```"])


PARTS: dict[str, Callable[[], str]] = {
    "rest_endpoints": rest_endpoints,
    "worker_requests": worker_requests,
    "diagram": states_diagram,
    "events": events_table,
    "errors": errors_tree,
    "cli": cli_reference,
}


if __name__ == "__main__":
    for page in pages():
        wanted = generated(page)
        if wanted != page.path.read_text("utf-8"):
            page.path.write_text(wanted, "utf-8")
            sys.stdout.write(f"{page.name} written\n")
    write_clients()

"""Floor 5: the command line. `main` runs a command and turns every outcome into an exit code.

0: done, 1: failed, 2: wrong use. An error is one line on stderr; `--traceback` or HEADRACE_DEBUG shows the rest.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import traceback
from collections.abc import Sequence

import click

from headrace.cli.command_list import meant
from headrace.cli.output import clean
from headrace.cli.root import root
from headrace.cli.session import Session
from headrace.errors import ConfigError, HeadraceError, InvalidAlert, InvalidJob, SchemaMismatch

DONE, FAILED, WRONG_USE = 0, 1, 2
_NO_COMMAND = re.compile(r"^No such command '([^']*)'\.$")
_APP_AS_ARGUMENT = re.compile(r"extra argument \(([\w.]+:[\w.]+)\)")  # `worker shop.jobs:app`, as other tools take it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default the one of this process, and return its exit code."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character gets an escape, not a crash
            stream.reconfigure(errors="backslashreplace")
    session = Session()
    try:
        return _run(arguments, session)
    except BrokenPipeError:
        return _discard_stdout()
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return FAILED
    except SystemExit as end:  # click exits so when the reader closed the pipe
        return end.code if isinstance(end.code, int) else FAILED
    except Exception as error:  # last resort: any error becomes one line
        return _report(error, session)


def _replace_closed_streams() -> None:
    """The caller may have closed them (`>&-`); the command still runs, and its output is discarded."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  (stays open until the process ends)


def _run(arguments: Sequence[str] | None, session: Session) -> int:
    try:
        code = root.main(arguments, "headrace", standalone_mode=False, obj=session)
        sys.stdout.flush()
    finally:
        session.close()
    return code if isinstance(code, int) else DONE


def _report(error: Exception, session: Session) -> int:
    if session.traceback or os.environ.get("HEADRACE_DEBUG"):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    click.echo(f"error: {clean(_error_text(error))}", err=True)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"try: {error.ctx.command_path} {_advice(error, error.ctx.command)}", err=True)
    return _code_of(error)


def _advice(error: click.UsageError, command: click.Command) -> str:
    app = _APP_AS_ARGUMENT.search(error.message)
    takes_none = not any(isinstance(param, click.Argument) for param in command.params)
    return f"--app {app[1]}" if app and takes_none else "--help"


def _error_text(error: Exception) -> str:
    if isinstance(error, click.ClickException):
        text = _message(error)
        return text if text[1:2].isupper() else text[:1].lower() + text[1:]  # ARGS stays as it is
    if isinstance(error, HeadraceError | TimeoutError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error} (--traceback shows where)"


def _message(error: click.ClickException) -> str:
    """The message of click, and which command was probably meant: click knows no names of other tools."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    typed = _NO_COMMAND.search(error.message)
    if ctx is None or typed is None or not isinstance(ctx.command, click.Group):
        return error.format_message()
    near = meant(typed[1], ctx.command.list_commands(ctx), is_root=ctx.command is root)
    return f"{error.message} Did you mean '{near}'?" if near else error.message


def _code_of(error: Exception) -> int:
    if isinstance(error, click.ClickException):
        return error.exit_code
    misused = isinstance(error, InvalidJob | InvalidAlert | ConfigError) and not isinstance(error, SchemaMismatch)
    return WRONG_USE if misused else FAILED


def _discard_stdout() -> int:
    """`headrace jobs | head`: point stdout at the null device, for the interpreter's final flush."""
    null = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(null, sys.stdout.fileno())
    return FAILED

"""Commands that return what they found, printed as a table, facts or a sentence, or with --json as one document.

    queues = Resource("queues", "Show and pause queues. Without a command: list them.", "headrace queues")

    @queues.command("show", epilog=example("headrace queues show emails"))
    @click.argument("name")
    def show(session: Session, name: str) -> Output:
        "Show one queue."
        stats = session.store().queue(name).stats()
        return facts(stats, _facts(stats))

The option --json and those of every command are added here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import click

from headrace.cli.options import OUTPUT_OPTIONS, example
from headrace.cli.output import Column, clean, print_facts, print_json, print_table, remark, say


class Output(NamedTuple):
    """`data` is the JSON document, or a function that makes it; `show` prints the same for people."""

    data: Any
    show: Callable[[], Any]
    code: int = 0

    def print(self, as_json: bool) -> int:
        """Print it; returns the exit code."""
        if as_json:
            print_json(self.data() if callable(self.data) else self.data)
        else:
            self.show()
        return self.code


def line(data: Any, text: str, code: int = 0) -> Output:
    return Output(data, lambda: say(clean(text)), code)


def lines(data: Any, texts: Iterable[str], empty: str = "") -> Output:
    """Lines of text, or the remark `empty` if there are none."""

    def show() -> None:
        listed = list(texts)
        for text in listed:
            say(clean(text))
        if not listed and empty:
            remark(empty)

    return Output(data, show)


def facts(data: Any, pairs: Iterable[tuple[str, str]]) -> Output:
    return Output(data, lambda: print_facts(pairs))


def table(
    data: Any, columns: Sequence[Column], rows: Iterable[Sequence[str]], empty: str = "", hints: Iterable[str] = ()
) -> Output:
    """A table and remarks below it, or the remark `empty` in place of a table without rows."""

    def show() -> None:
        listed = list(rows)
        if listed or not empty:
            print_table(columns, listed)
        else:
            remark(empty)
        for hint in hints:
            remark(hint)

    return Output(data, show)


class OutputCommand(click.Command):
    """A command whose function takes the session and its own options, and returns an `Output`."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        for option in OUTPUT_OPTIONS:
            option(self)

    def invoke(self, ctx: click.Context) -> int:
        return self.run(ctx.obj, **ctx.params)

    def run(self, session: Any, /, as_json: bool, **given: Any) -> int:
        """Call the function and print its output; returns the exit code."""
        assert self.callback is not None
        output: Output = self.callback(session, **given)
        return output.print(as_json)


class OutputGroup(click.Group):
    command_class = OutputCommand


class Resource(OutputGroup):
    """The commands of one kind of thing. Without a command, it runs `listing`, by default its command `list`."""

    def __init__(self, name: str, help_text: str, *examples: str, listing: click.Command | None = None) -> None:
        super().__init__(
            name, help=help_text, epilog=example(*examples), invoke_without_command=True, callback=self._list
        )
        self._listing = listing
        for option in OUTPUT_OPTIONS:
            option(self)

    def _list(self, as_json: bool) -> Any:
        ctx = click.get_current_context()
        if ctx.invoked_subcommand is None:
            listing = self._listing or self.commands["list"]
            with listing.make_context(listing.name, ["--json"] if as_json else [], parent=ctx) as child:
                return listing.invoke(child)
        if as_json:
            raise click.UsageError(f"put --json after {ctx.invoked_subcommand!r}", ctx)
        return None

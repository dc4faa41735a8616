"""`headrace from-celery`: what of a Celery project carries over to headrace.contrib.celery."""

from __future__ import annotations

from collections import Counter

import click

from headrace.cli.from_celery.source import Use, all_uses
from headrace.cli.options import as_json_option, example, shared
from headrace.cli.output import Column, print_json, print_table, say

_COLUMNS = (
    Column("PLACE", min_width=12),
    Column("WHAT", min_width=12),
    Column("VERDICT", min_width=12),
    Column("NOTE", min_width=12),
)


@click.command(
    "from-celery",
    epilog=example("headrace from-celery shop.tasks", "headrace from-celery src/shop --json"),
)
@click.argument("name", metavar="MODULE_OR_PATH")
@click.option("--all", "show_all", is_flag=True, help="List also what carries over as it is.")
@as_json_option
@shared
def from_celery(name: str, show_all: bool, as_json: bool) -> int:
    """Check a Celery project: what carries over to headrace.contrib.celery, what changes, what does not.

    Reads the source of a module, a package, a file or a folder, imports nothing and needs no Celery. Exits with 1 if
    something does not carry over.
    """
    uses = list(all_uses(name))
    counts = Counter[str](use.verdict for use in uses)
    if as_json:
        print_json({"uses": uses, "counts": dict(counts), "verdict": verdict(uses)})
    else:
        shown = [use for use in uses if show_all or use.verdict != "carries over"]
        if shown:
            print_table(_COLUMNS, [[f"{use.file}:{use.line}", use.what, use.verdict, use.note] for use in shown])
        say(verdict(uses))
    return 1 if counts["does not"] else 0


def verdict(uses: list[Use]) -> str:
    """One sentence about all of them."""
    if not uses:
        return "no use of Celery was found"
    counts = Counter[str](use.verdict for use in uses)
    places = f"{counts['carries over']} carry over, {counts['changes']} change, {counts['does not']} do not"
    if counts["does not"]:
        return f"{places}: replace what does not, then change the imports to headrace.contrib.celery"
    return f"{places}: change the imports to headrace.contrib.celery and the module runs"

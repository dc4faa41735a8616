"""`manage.py headrace ...`: the command line of headrace, with the project's tasks and store."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    """Passes everything behind `headrace` on."""

    help = "Run a worker, look at jobs, open the dashboard: the command line of headrace."
    requires_system_checks: ClassVar[list[str]] = []

    def run_from_argv(self, argv: list[str]) -> None:
        sys.exit(_main(argv[2:]))

    def handle(self, *args: Any, **options: Any) -> None:
        raise CommandError("run it from a shell: manage.py headrace ...")


def _main(args: list[str]) -> int:
    from headrace.cli import main  # deferred: each command of Django imports this module for its help

    return main(["--app", "headrace.contrib.django.worker_app:app", *args])

"""Progress of a copy on stderr: a bar on a terminal, otherwise a line every two seconds."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from headrace.app.transfer.move import CopyStep
from headrace.cli.output import remark

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_INTERVAL = 2.0
_MESSAGES = {
    "reading": "read {done:,} of {total:,} jobs",
    "copying": "copied {done:,} of {total:,} jobs",
    "comparing": "compared {done:,} of {total:,} jobs",
}


class Progress:
    """Shows steps until `close`."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._stage = ""
        self._printed_at = 0.0
        self._left: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def note(self, text: str) -> None:
        """Print a line that stays."""
        if not self._quiet:
            remark(text)

    def show(self, step: CopyStep) -> None:
        if self._quiet:
            return
        if step.stage == "waiting":
            self._print_waiting(step)
        elif sys.stderr.isatty():
            self._draw(step)
        else:
            self._print_step(step)

    def _print_waiting(self, step: CopyStep) -> None:
        left = step.total - step.done
        if left != self._left:
            self._left = left
            jobs = "1 running job" if left == 1 else f"{left:,} running jobs"
            remark(f"waiting for {jobs} to finish" if left else "no job is running")

    def _print_step(self, step: CopyStep) -> None:
        now = time.monotonic()
        if step.stage != self._stage or now - self._printed_at >= _INTERVAL or step.done >= step.total:
            self._stage, self._printed_at = step.stage, now
            remark(_MESSAGES[step.stage].format(done=step.done, total=step.total))

    def _draw(self, step: CopyStep) -> None:
        from rich.console import Console  # only ever needed here
        from rich.progress import Progress as Bar

        if self._bar is None:
            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._bar.start()
        if self._task is None or step.stage != self._stage:
            self._stage = step.stage
            self._task = self._bar.add_task(step.stage, total=step.total)
        self._bar.update(self._task, completed=step.done, total=max(step.total, step.done))

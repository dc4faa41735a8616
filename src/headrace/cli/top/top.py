"""`headrace top`: a live view of queues, workers and failures.

One thread polls the store, which may be slow or unavailable; the other draws and reads keys, so it always responds.
A slow store is polled less often.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator

import click
from msgspec import structs

from headrace.app.app import Headrace
from headrace.cli.options import as_json_option, duration, example, shared
from headrace.cli.output import on_terminal, print_json
from headrace.cli.session import Session
from headrace.cli.top.data import StoreSample, StoreSampler
from headrace.cli.top.view import SORTS, ViewState, print_sample, screen, sorted_queues
from headrace.errors import HeadraceError

_REST_FACTOR = 10  # a poll that took a second is followed by at least this many seconds of rest
_KEY = re.compile(r"\x1b[\[O].|.", re.DOTALL)  # one read may return several keys
_UP, _DOWN = ("\x1b[A", "\x1bOA", "k"), ("\x1b[B", "\x1bOB", "j")


@click.command("top", epilog=example("headrace top", "headrace top --once", "headrace top --json --interval 5s"))
@click.option("--interval", "-n", metavar="TIME", default="1s", callback=duration, help="Time between polls.")
@click.option("--sort", type=click.Choice(tuple(SORTS)), default="name", help="Initial order of queues.")
@click.option("--once", is_flag=True, help="Sample for one interval, print it as text and exit, as in a pipe.")
@as_json_option
@shared
@click.pass_obj
def top(session: Session, /, interval: float, sort: str, once: bool, as_json: bool) -> None:
    """Watch queues, workers and failures on the whole screen. Keys: q, arrows, p to pause or resume a queue, s to sort.

    Rates are over the last ten seconds. In a pipe, with --once or --json, it prints one sample after one interval.
    """
    app = session.store()
    if once or as_json or not on_terminal() or not sys.stdin.isatty():
        _print_once(app, interval, sort, as_json)
    else:
        _Screen(app, max(interval, 0.1), ViewState(sort)).run()


def _print_once(app: Headrace, interval: float, sort: str, as_json: bool) -> None:
    sampler = StoreSampler(app)
    sample = sampler.sample()
    if interval > 0:  # a rate needs two samples
        time.sleep(interval)
        sample = sampler.sample()
    if as_json:
        print_json(sample)
    else:
        print_sample(sample, sort)


class Poller:
    """The thread that polls the store. It sets `sample` or `error` and calls `on_poll` after each poll."""

    def __init__(self, app: Headrace, interval: float, on_poll: Callable[[], object]) -> None:
        self._sampler = StoreSampler(app)
        self._interval = interval
        self._on_poll = on_poll
        self._actions: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.sample: StoreSample | None = None
        self.error: str | None = None
        self.message: str | None = None

    def start(self) -> None:
        threading.Thread(target=self._poll_forever, name="headrace-top", daemon=True).start()

    def submit(self, action: Callable[[], object]) -> None:
        """Run an action on the polling thread, then poll again."""
        self._actions.put(action)

    def _poll_forever(self) -> None:
        while True:
            started = time.monotonic()
            self.poll()
            self._on_poll()
            took = time.monotonic() - started
            with contextlib.suppress(queue.Empty):
                self._run_action(self._actions.get(timeout=max(self._interval - took, took * _REST_FACTOR, 0.05)))

    def poll(self) -> None:
        """Poll once. An error goes to `error`, and the last `sample` stays."""
        try:
            self.sample = self._sampler.sample()
            self.error = None
        except Exception as error:  # keep polling after any error
            self.error = str(error) or type(error).__name__

    def _run_action(self, action: Callable[[], object]) -> None:
        try:
            action()
            self.message = None
        except HeadraceError as error:
            self.message = f"failed: {error}"


class _Screen:
    """The screen and the keyboard."""

    def __init__(self, app: Headrace, interval: float, view: ViewState) -> None:
        self._app = app
        self._view = view
        self._wake_reader, self._wake_writer = os.pipe()
        self._poller = Poller(app, interval, lambda: os.write(self._wake_writer, b"."))

    def run(self) -> None:
        from rich.console import Console  # only loaded to draw
        from rich.live import Live

        console = Console(highlight=False, markup=False)
        live = Live(console=console, screen=True, auto_refresh=False, transient=True)
        with _unbuffered_keys(), contextlib.suppress(KeyboardInterrupt), live:
            self._poller.start()
            is_running = True
            while is_running:
                live.update(
                    screen(self._poller.sample, self._current_view(), console.width, console.height), refresh=True
                )
                is_running = self._wait_for_input()

    def _current_view(self) -> ViewState:
        return structs.replace(self._view, error=self._poller.error, message=self._poller.message)

    def _wait_for_input(self) -> bool:
        """Wait for a key, a new sample, or one second (the terminal may be resized); False to quit."""
        ready, _, _ = select.select([sys.stdin.fileno(), self._wake_reader], [], [], 1.0)
        if self._wake_reader in ready:
            os.read(self._wake_reader, 4096)
        if sys.stdin.fileno() not in ready:
            return True
        typed = os.read(sys.stdin.fileno(), 64).decode("utf-8", "replace")
        return bool(typed) and all(self._press(key) for key in _KEY.findall(typed))

    def _press(self, key: str) -> bool:
        view = self._view
        if view.question is not None:
            self._view = structs.replace(view, question=None)
            if key in ("y", "Y") and view.chosen is not None:
                self._toggle(view.chosen)
            return True
        if key in ("q", "Q", "\x03", "\x04"):
            return False
        if key == "s":
            names = list(SORTS)
            self._view = structs.replace(view, sort=names[(names.index(view.sort) + 1) % len(names)])
        elif key in (*_UP, *_DOWN):
            self._choose(-1 if key in _UP else 1)
        elif key == "p":
            self._ask_to_toggle()
        return True

    def _choose(self, step: int) -> None:
        names = (
            [] if self._poller.sample is None else [one.queue for one in sorted_queues(self._poller.sample, self._view)]
        )
        if names:
            index = names.index(self._view.chosen) + step if self._view.chosen in names else 0 if step > 0 else -1
            self._view = structs.replace(self._view, chosen=names[index % len(names)])

    def _ask_to_toggle(self) -> None:
        if self._view.chosen is None:
            self._choose(1)
        if self._view.chosen is not None:
            action = "resume" if self._is_paused(self._view.chosen) else "pause"
            self._view = structs.replace(self._view, question=f"{action} {self._view.chosen}? y/n")

    def _toggle(self, name: str) -> None:
        handle = self._app.queue(name)
        self._poller.submit(handle.resume if self._is_paused(name) else handle.pause)

    def _is_paused(self, name: str) -> bool:
        queues = [] if self._poller.sample is None else self._poller.sample.queues
        return any(queue_sample.queue == name and queue_sample.state == "paused" for queue_sample in queues)


@contextlib.contextmanager
def _unbuffered_keys() -> Iterator[None]:
    """Read keys unbuffered and without echo inside a `with`; restore the terminal afterwards."""
    try:
        import termios  # Unix only
        import tty
    except ImportError:
        raise HeadraceError("the live view needs a Unix terminal; --once and --json work here") from None
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

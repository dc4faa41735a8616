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
from headrace.cli.top.view import SORTS, ViewState, in_order, print_sight, screen
from headrace.errors import HeadraceError

_SHARE = 10  # a poll that took a second is followed by at least this many seconds of rest
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
    lookout = StoreSampler(app)
    sight = lookout.look()
    if interval > 0:  # a rate needs two samples
        time.sleep(interval)
        sight = lookout.look()
    if as_json:
        print_json(sight)
    else:
        print_sight(sight, sort)


class Poller:
    """The thread that polls the store. It sets `sight` or `trouble` and calls `rung` after each poll."""

    def __init__(self, app: Headrace, interval: float, rung: Callable[[], object]) -> None:
        self._lookout = StoreSampler(app)
        self._interval = interval
        self._rung = rung
        self._orders: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.sight: StoreSample | None = None
        self.trouble: str | None = None
        self.message: str | None = None

    def start(self) -> None:
        threading.Thread(target=self._look_on, name="headrace-top", daemon=True).start()

    def order(self, act: Callable[[], object]) -> None:
        """Run an action on the polling thread, then poll again."""
        self._orders.put(act)

    def _look_on(self) -> None:
        while True:
            began = time.monotonic()
            self.look()
            self._rung()
            took = time.monotonic() - began
            with contextlib.suppress(queue.Empty):
                self._apply_command(self._orders.get(timeout=max(self._interval - took, took * _SHARE, 0.05)))

    def look(self) -> None:
        """Poll once. An error goes to `trouble`, and the last `sight` stays."""
        try:
            self.sight = self._lookout.look()
            self.trouble = None
        except Exception as error:  # keep polling after any error
            self.trouble = str(error) or type(error).__name__

    def _apply_command(self, act: Callable[[], object]) -> None:
        try:
            act()
            self.message = None
        except HeadraceError as error:
            self.message = f"failed: {error}"


class _Screen:
    """The screen and the keyboard."""

    def __init__(self, app: Headrace, interval: float, look: ViewState) -> None:
        self._app = app
        self._look = look
        self._heard, self._bell = os.pipe()
        self._poller = Poller(app, interval, lambda: os.write(self._bell, b"."))

    def run(self) -> None:
        from rich.console import Console  # only loaded to draw
        from rich.live import Live

        console = Console(highlight=False, markup=False)
        live = Live(console=console, screen=True, auto_refresh=False, transient=True)
        with _keys_at_once(), contextlib.suppress(KeyboardInterrupt), live:
            self._poller.start()
            going = True
            while going:
                live.update(screen(self._poller.sight, self._now(), console.width, console.height), refresh=True)
                going = self._listen()

    def _now(self) -> ViewState:
        return structs.replace(self._look, trouble=self._poller.trouble, message=self._poller.message)

    def _listen(self) -> bool:
        """Wait for a key, a new sample, or one second (the terminal may be resized); False to quit."""
        ready, _, _ = select.select([sys.stdin.fileno(), self._heard], [], [], 1.0)
        if self._heard in ready:
            os.read(self._heard, 4096)
        if sys.stdin.fileno() not in ready:
            return True
        typed = os.read(sys.stdin.fileno(), 64).decode("utf-8", "replace")
        return bool(typed) and all(self._press(key) for key in _KEY.findall(typed))

    def _press(self, key: str) -> bool:
        look = self._look
        if look.question is not None:
            self._look = structs.replace(look, question=None)
            if key in ("y", "Y") and look.chosen is not None:
                self._toggle(look.chosen)
            return True
        if key in ("q", "Q", "\x03", "\x04"):
            return False
        if key == "s":
            names = list(SORTS)
            self._look = structs.replace(look, sort=names[(names.index(look.sort) + 1) % len(names)])
        elif key in (*_UP, *_DOWN):
            self._choose(-1 if key in _UP else 1)
        elif key == "p":
            self._ask()
        return True

    def _choose(self, way: int) -> None:
        names = [] if self._poller.sight is None else [seen.queue for seen in in_order(self._poller.sight, self._look)]
        if names:
            at = names.index(self._look.chosen) + way if self._look.chosen in names else 0 if way > 0 else -1
            self._look = structs.replace(self._look, chosen=names[at % len(names)])

    def _ask(self) -> None:
        if self._look.chosen is None:
            self._choose(1)
        if self._look.chosen is not None:
            deed = "resume" if self._is_paused(self._look.chosen) else "pause"
            self._look = structs.replace(self._look, question=f"{deed} {self._look.chosen}? y/n")

    def _toggle(self, name: str) -> None:
        handle = self._app.queue(name)
        self._poller.order(handle.resume if self._is_paused(name) else handle.pause)

    def _is_paused(self, name: str) -> bool:
        seen = [] if self._poller.sight is None else self._poller.sight.queues
        return any(one.queue == name and one.state == "paused" for one in seen)


@contextlib.contextmanager
def _keys_at_once() -> Iterator[None]:
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

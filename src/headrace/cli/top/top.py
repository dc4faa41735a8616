"""`headrace top`: queues, workers and failures as they are now, again every second.

One thread looks at the store, which may take its time or be away; the other draws and listens to keys, and so always
answers. A store that takes long to answer is asked less often.
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

_SHARE = 10  # a look that took a second is followed by so many seconds of rest at least
_KEY = re.compile(r"\x1b[\[O].|.", re.DOTALL)  # whoever types fast has typed several before one is read
_UP, _DOWN = ("\x1b[A", "\x1bOA", "k"), ("\x1b[B", "\x1bOB", "j")


@click.command("top", epilog=example("headrace top", "headrace top --once", "headrace top --json --interval 5s"))
@click.option("--interval", "-n", metavar="TIME", default="1s", callback=duration, help="How often to look.")
@click.option("--sort", type=click.Choice(tuple(SORTS)), default="name", help="The order of queues at first.")
@click.option("--once", is_flag=True, help="Look for one interval, print that as text and end; so it does in a pipe.")
@as_json_option
@shared
@click.pass_obj
def top(session: Session, /, interval: float, sort: str, once: bool, as_json: bool) -> None:
    """Watch queues, workers and failures on the whole screen. Keys: q, arrows, p to pause or resume a queue, s to sort.

    Rates are over the last ten seconds. In a pipe, with --once or --json, it prints what it saw after one interval.
    """
    app = session.store()
    if once or as_json or not on_terminal() or not sys.stdin.isatty():
        _print_once(app, interval, sort, as_json)
    else:
        _Screen(app, max(interval, 0.1), ViewState(sort)).run()


def _print_once(app: Headrace, interval: float, sort: str, as_json: bool) -> None:
    lookout = StoreSampler(app)
    sight = lookout.look()
    if interval > 0:  # only two looks tell a rate
        time.sleep(interval)
        sight = lookout.look()
    if as_json:
        print_json(sight)
    else:
        print_sight(sight, sort)


class Poller:
    """The thread that asks the store. What it was told is in `sight` and `trouble`; `rung` is called with each."""

    def __init__(self, app: Headrace, interval: float, rung: Callable[[], object]) -> None:
        self._lookout = StoreSampler(app)
        self._interval = interval
        self._rung = rung
        self._orders: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.sight: StoreSample | None = None
        self.trouble: str | None = None
        self.store_status: str | None = None

    def start(self) -> None:
        threading.Thread(target=self._look_on, name="headrace-top", daemon=True).start()

    def order(self, act: Callable[[], object]) -> None:
        """Have something done, and look what came of it."""
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
        """Look once. Whatever is wrong is told, and the last sight stays."""
        try:
            self.sight = self._lookout.look()
            self.trouble = None
        except Exception as error:  # it must go on, whatever it is
            self.trouble = str(error) or type(error).__name__

    def _apply_command(self, act: Callable[[], object]) -> None:
        try:
            act()
            self.store_status = None
        except HeadraceError as error:
            self.store_status = f"that failed: {error}"


class _Screen:
    """The screen, and whoever sits in front of it."""

    def __init__(self, app: Headrace, interval: float, look: ViewState) -> None:
        self._app = app
        self._look = look
        self._heard, self._bell = os.pipe()
        self._looker = Poller(app, interval, lambda: os.write(self._bell, b"."))

    def run(self) -> None:
        from rich.console import Console  # rich is loaded to draw, and for nothing else
        from rich.live import Live

        console = Console(highlight=False, markup=False)
        live = Live(console=console, screen=True, auto_refresh=False, transient=True)
        with _keys_at_once(), contextlib.suppress(KeyboardInterrupt), live:
            self._looker.start()
            going = True
            while going:
                live.update(screen(self._looker.sight, self._now(), console.width, console.height), refresh=True)
                going = self._listen()

    def _now(self) -> ViewState:
        return structs.replace(self._look, trouble=self._looker.trouble, store_status=self._looker.store_status)

    def _listen(self) -> bool:
        """Wait for a key or a new sight, or long enough for the terminal to have another size; False at the end."""
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
        names = [] if self._looker.sight is None else [seen.queue for seen in in_order(self._looker.sight, self._look)]
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
        self._looker.order(handle.resume if self._is_paused(name) else handle.pause)

    def _is_paused(self, name: str) -> bool:
        seen = [] if self._looker.sight is None else self._looker.sight.queues
        return any(one.queue == name and one.state == "paused" for one in seen)


@contextlib.contextmanager
def _keys_at_once() -> Iterator[None]:
    """Inside a `with`, a key is read when it is pressed, and not shown. Afterwards the terminal is as it was."""
    try:
        import termios  # not everywhere, and for no other command
        import tty
    except ImportError:
        raise HeadraceError("the live view needs a terminal of Unix; --once and --json work here") from None
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

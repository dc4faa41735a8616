"""`python -m bench`: measure this machine, and print a table."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path

import bench
from bench import machine
from bench.environments import Environments, NotInstalled
from bench.ground import Ground
from bench.measures import NAMES, measures_of
from bench.peers import Peer, peers_of
from bench.places import ENGINES, Engine, open_place, stop_servers
from bench.report import Absence, Report
from bench.rounds import Failure, Lap, take_rounds, tell_on_stderr
from bench.scale import command as scale
from bench.sizes import FULL, QUICK, with_huge_history

_WITH_PEERS = {"enqueue", "peers", "latency", "imports"}
_ROOT = Path(bench.__file__ or ".").resolve().parent.parent


def main() -> int:
    if sys.argv[1:2] == ["scale"]:
        return scale.main(sys.argv[2:])
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an orderly end: children stopped, files removed
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir, ignore_cleanup_errors=True) as folder:
        report = Run(options, Path(folder).resolve()).report()
    print(report.as_text())
    if options.json:
        report.write(options.json)
    return 1 if report.failures else 0


class Run:
    """One run: it opens the places, takes the rounds, and closes what it opened."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._environments = Environments(options.peers.resolve())
        self._versions: dict[str, str] = {}
        self._failures: list[Failure] = []

    def report(self) -> Report:
        options = self._options
        facts = machine.facts(self._folder, options.rounds, "quick" if options.quick else "full")
        engines = options.engine or ENGINES
        with contextlib.ExitStack() as stack:
            if set(engines) != {"sqlite"}:
                stack.callback(stop_servers)  # the last thing: stores are removed before
            grounds = [ground for engine in engines for ground in self._open(engine, stack)]
            _forget_settings()
            facts |= {ground.engine: ground.place.fact() for ground in grounds} | self._versions
            before = machine.load()
            laps = [lap for ground in grounds for lap in self._laps(ground)]
            take_rounds(laps, options.rounds, tell_on_stderr)
        facts["load"] = f"{before} before, {machine.load()} after"
        failures = [*self._failures, *(lap.failure for lap in laps if lap.failure)]
        absences = [Absence(ground.engine, *pair) for ground in grounds for pair in ground.absences.items()]
        return Report(facts, [row for lap in laps for row in lap.rows()], failures, absences)

    def _open(self, engine: Engine, stack: contextlib.ExitStack) -> list[Ground]:
        """The ground of the engine; none if its server does not start, which is told at the end."""
        options = self._options
        try:
            place = open_place(engine, self._folder, options.durability)
        except Exception as error:
            self._failures.append(Failure(engine, "server", f"{type(error).__name__}: {error}"))
            return []
        sizes = QUICK if options.quick else FULL
        sizes = with_huge_history(sizes) if options.huge else sizes
        peers = peers_of(engine, options.durability) if _WITH_PEERS & set(options.only or NAMES) else ()
        absences = {peer.title: why for peer in peers if (why := self._hindrance(peer))}
        ground = Ground(place, self._folder, options.durability, sizes, peers, absences, self._environments)
        stack.callback(ground.close)
        return [ground]

    def _hindrance(self, peer: Peer) -> str | None:
        """Why the peer can't be measured; None if it is installed."""
        if self._options.peer and peer.package not in self._options.peer:
            return "not asked for"
        try:
            self._versions[peer.package] = self._environments.version_of(peer)
        except (NotInstalled, OSError) as error:
            return str(error)
        return None

    def _laps(self, ground: Ground) -> list[Lap]:
        chosen = self._options.only or NAMES
        measures = measures_of(ground.engine, tuple(ground.peers))
        return [Lap(ground, measure) for measure in measures if measure.name in chosen]


def _forget_settings() -> None:
    """Once the servers are found, nothing in the environment may change what is measured."""
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        del os.environ[name]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure headrace on this machine.",
        epilog="python -m bench scale: how far each store carries, with options of its own.",
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the work, for a first impression")
    parser.add_argument("--huge", action="store_true", help="ten million finished jobs instead of one")
    parser.add_argument(
        "--engine", action="append", choices=ENGINES, metavar="NAME", help=f"one of {', '.join(ENGINES)} (all)"
    )
    parser.add_argument("--only", action="append", choices=NAMES, metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=_at_least_one, default=3, help="how often each measure is taken (3)")
    parser.add_argument(
        "--durability", choices=("normal", "full"), default="normal", help="on SQLite, for headrace and huey alike"
    )
    parser.add_argument("--peer", action="append", metavar="NAME", help="only this peer, by the name of its package")
    parser.add_argument(
        "--peers", type=Path, metavar="FOLDER", default=_ROOT / ".bench", help="where peers are installed (.bench)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was read, too")
    parser.add_argument(
        "--dir", type=Path, metavar="FOLDER", help="where SQLite's stores are made (the temporary folder)"
    )
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())

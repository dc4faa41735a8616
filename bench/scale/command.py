"""`python -m bench scale`: one thing grows at a time, and each rate is drawn over it."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import machine
from bench.environments import Environments
from bench.ground import Ground
from bench.places import ENGINES, Engine, open_place, stop_servers
from bench.rounds import tell_on_stderr
from bench.scale import report
from bench.scale.axes import AXES, NAMES
from bench.scale.readings import Readings
from bench.scale.run import Extent, walk
from bench.sizes import QUICK

_HUGE = 1e7


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    readings = Readings(options.out, 100 if options.quiet is None else options.quiet)
    try:
        if not options.draw:
            _measure(options, readings)
    finally:  # what was read until an early end is worth a picture, too
        told = report.write(readings, options.out, machine.cores(), options.pictures)
    print(told.read_text())
    return 1 if any(reading.error for reading in readings.all()) else 0


def _measure(options: argparse.Namespace, readings: Readings) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an orderly end: children stopped, files removed
    up_to = _HUGE if options.huge else options.up_to
    extent = Extent(up_to, options.jobs, options.rounds, options.quiet, options.patience)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir, ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        readings.add_facts(machine.facts(folder, options.rounds, f"{options.jobs:,} jobs a probe"))
        for engine in options.engine or ENGINES:
            with contextlib.ExitStack() as stack:
                if engine != "sqlite":
                    stack.callback(stop_servers)
                ground = _open(engine, folder)
                readings.add_facts({engine: ground.place.fact()})
                for axis in AXES:
                    if axis.name in (options.only or NAMES):
                        walk(ground, axis, extent, readings, tell_on_stderr)


def _open(engine: Engine, folder: Path) -> Ground:
    """A ground without peers. Once its server is found, no setting changes what is measured."""
    place = open_place(engine, folder, "normal")
    kept = ("HEADRACE_TEST_POSTGRES", "HEADRACE_TEST_REDIS")  # for the engines that come after
    for name in [name for name in os.environ if name.startswith("HEADRACE_") and name not in kept]:
        del os.environ[name]
    return Ground(place, folder, "normal", QUICK, (), {}, Environments(folder))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench scale", description=__doc__)
    parser.add_argument("--up-to", type=float, default=1e5, help="no step above this, such as 1e6 (1e5)")
    parser.add_argument("--huge", action="store_true", help="the same as --up-to 1e7")
    parser.add_argument(
        "--engine", action="append", choices=ENGINES, metavar="NAME", help=f"one of {', '.join(ENGINES)} (all)"
    )
    parser.add_argument("--only", action="append", choices=NAMES, metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=1, help="probes at each step, of which the best counts (1)")
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs a probe enqueues and drains (20000)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        default=Path("build/scale"),
        help="readings, pictures and text; readings that are there count, too (build/scale)",
    )
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="where the pictures go (the folder of --out)")
    parser.add_argument(
        "--quiet",
        type=float,
        metavar="PERCENT",
        help="count only readings during which others used at most so much of the processors, and measure only steps "
        "that have none",
    )
    parser.add_argument(
        "--patience", type=float, metavar="SECONDS", default=30, help="with --quiet: wait for such a moment (30)"
    )
    parser.add_argument("--draw", action="store_true", help="measure nothing, only draw the readings that are there")
    parser.add_argument(
        "--dir", type=Path, metavar="FOLDER", help="where SQLite's stores are made (the temporary folder)"
    )
    return parser

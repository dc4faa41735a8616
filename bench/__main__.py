"""`python -m bench`: measure this machine, and print a table."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from bench import machine
from bench.measure import FULL, QUICK, Ground, Measure
from bench.measures import ALL
from bench.report import Report
from bench.rounds import take_rounds, tell_on_stderr

_NAMES = [measure.name for measure in ALL]


def main() -> int:
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an orderly end: children stopped, files removed
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir, ignore_cleanup_errors=True) as folder:
        report = _run(options, Path(folder).resolve())
    print(report.as_text())
    if options.json:
        report.write(options.json)
    return 1 if report.failures else 0


def _run(options: argparse.Namespace, folder: Path) -> Report:
    ground = Ground(folder, options.durability, QUICK if options.quick else FULL)
    facts = machine.facts(folder, options.durability, options.rounds, "quick" if options.quick else "full")
    before = machine.load()
    rows, failures = take_rounds(_chosen(options.only), ground, options.rounds, tell_on_stderr)
    facts["load"] = f"{before} before, {machine.load()} after"
    return Report(facts, rows, failures)


def _chosen(names: list[str] | None) -> list[Measure]:
    return [measure for measure in ALL if not names or measure.name in names]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure headrace on this machine.")
    parser.add_argument("--quick", action="store_true", help="a fifth of the work, for a first impression")
    parser.add_argument("--only", action="append", choices=_NAMES, metavar="NAME", help=f"one of {', '.join(_NAMES)}")
    parser.add_argument("--rounds", type=_at_least_one, default=3, help="how often each measure is taken (3)")
    parser.add_argument(
        "--durability", choices=("normal", "full"), default="normal", help="for headrace and huey alike"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was read, too")
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="where the stores are made (the temporary folder)")
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())

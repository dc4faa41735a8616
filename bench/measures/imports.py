"""What it costs to import headrace."""

from __future__ import annotations

import statistics
import subprocess
import sys

from bench import racing
from bench.child import environment
from bench.ground import Ground
from bench.measure import Figure, Goal, Measure, Readings
from bench.peers import Peer

_PROGRAM = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"


def imports(ground: Ground) -> Readings:
    """Milliseconds to import the package into a fresh interpreter: every command line call and test run pays it.

    With the engine comes its driver, which is loaded when a URL asks for it.
    """
    readings = {
        "headrace": _milliseconds(ground, sys.executable, "from headrace import Headrace"),
        "engine": _milliseconds(
            ground, sys.executable, f"from headrace import Headrace; import headrace.engines.{ground.engine}.engine"
        ),
    }
    return readings | racing.ask_each(
        ground, lambda peer: {peer.package: _milliseconds(ground, ground.python_of(peer), f"import {peer.package}")}
    )


def _milliseconds(ground: Ground, python: str, statement: str) -> float:
    """The median of a few; a first one, not counted, leaves compiled files behind."""
    return statistics.median([_once(ground, python, statement) for _ in range(1 + ground.sizes.imports)][1:])


def _once(ground: Ground, python: str, statement: str) -> float:
    done = subprocess.run(
        [python, "-c", _PROGRAM.format(statement)],
        env=environment(),
        cwd=ground.folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return float(done.stdout) * 1000


def measure(candidates: tuple[Peer, ...]) -> Measure:
    """The measure beside these."""
    packages = dict.fromkeys(peer.package for peer in candidates)
    return Measure(
        "imports",
        imports,
        (
            Figure("headrace", "from headrace import Headrace", "ms", Goal("at most", 100)),
            Figure("engine", "the same and its engine", "ms"),
            *(Figure(package, f"import {package}", "ms") for package in packages),
        ),
    )

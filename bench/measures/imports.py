"""What `import headrace` costs."""

from __future__ import annotations

import statistics
import subprocess
import sys

from bench.child import environment
from bench.measure import Figure, Goal, Ground, Measure, Readings

_PROGRAM = "import time; began = time.perf_counter(); import {}; print(time.perf_counter() - began)"


def imports(ground: Ground) -> Readings:
    """Milliseconds to import the package into a fresh interpreter: every command line call and test run pays it."""
    return {"headrace": _milliseconds(ground, "headrace"), "huey": _milliseconds(ground, "huey")}


def _milliseconds(ground: Ground, package: str) -> float:
    """The median of a few; a first one, not counted, leaves compiled files behind."""
    return statistics.median([_once(ground, package) for _ in range(1 + ground.sizes.imports)][1:])


def _once(ground: Ground, package: str) -> float:
    command = [sys.executable, "-c", _PROGRAM.format(package)]
    done = subprocess.run(
        command, env=environment(), cwd=ground.folder, capture_output=True, text=True, check=True, timeout=60
    )
    return float(done.stdout) * 1000


MEASURE = Measure(
    "imports",
    imports,
    (
        Figure("headrace", "import headrace", "ms", Goal("at most", 100)),
        Figure("huey", "import huey", "ms"),
    ),
)

"""What every test shares: how Hypothesis searches, and which engines a test runs on.

A test that uses `engine_name`, by whatever fixture, runs once for each engine of stores.KINDS. The mark
`engines("sqlite")` says that it is about this engine, or that one engine tells as much as three. Other fixtures live
beside the tests that use them.
"""

from __future__ import annotations

import signal
import sys

import pytest
from hypothesis import settings

from tests.conformance.stores import KINDS

# No deadline per example: a slow moment of a busy machine is not a bug. A failure prints how to repeat it.
settings.register_profile("headrace", deadline=None, print_blob=True)
settings.load_profile("headrace")

# Whoever starts the tests behind a script may have had Ctrl-C ignored, by them and by every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine_name" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("engines")
        metafunc.parametrize("engine_name", [name for name in KINDS if mark is None or name in mark.args])


def pytest_sessionfinish() -> None:
    """End the servers, if any was started; those that are left when a run is cut short have a keeper of their own."""
    if servers := sys.modules.get("tests.servers"):
        servers.stop_all()

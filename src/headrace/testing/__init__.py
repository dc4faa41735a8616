"""The testing kit: run jobs in tests without a worker, without waiting, in a deterministic order.

It uses the app as any caller does and the engine as a worker does, so jobs run the same in production. No other module
of headrace imports it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.assertions import assert_enqueued, assert_not_enqueued, enqueued
    from headrace.testing.clock import VirtualClock
    from headrace.testing.contexts import inline, isolated
    from headrace.testing.draining import adrain, drain

__all__ = [
    "VirtualClock",
    "adrain",
    "assert_enqueued",
    "assert_not_enqueued",
    "drain",
    "enqueued",
    "inline",
    "isolated",
]

_HOMES = {
    "VirtualClock": "clock",
    "adrain": "draining",
    "assert_enqueued": "assertions",
    "assert_not_enqueued": "assertions",
    "drain": "draining",
    "enqueued": "assertions",
    "inline": "contexts",
    "isolated": "contexts",
}


def __getattr__(name: str) -> Any:
    # Deferred, because pytest imports this package for the plugin in every run where headrace is installed.
    if name in _HOMES:
        return getattr(importlib.import_module(f"headrace.testing.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'headrace.testing' has no attribute {name!r}")

"""Settings that follow from others unless they are set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The meaning of `staleness="enforce"`.
_ENFORCED: dict[str, Any] = {"on_stale": "dead", "stale_running": 1800.0, "stale_age": 86_400.0}
# Redis holds everything in memory: a busy store would have a gigabyte of metrics there.
_IN_MEMORY: dict[str, Any] = {"metrics_keep_fine": 21_600.0, "metrics_keep_minutes": 259_200.0}
_REDIS = ("redis", "valkey", "unix")


def implied(values: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """For each implied setting, its value and the setting that implies it."""
    found: dict[str, tuple[Any, str]] = {}
    if values.get("staleness") == "enforce":
        found |= {name: (value, "staleness") for name, value in _ENFORCED.items()}
    if str(values.get("url", "")).lower().startswith(_REDIS):
        found |= {name: (value, "url") for name, value in _IN_MEMORY.items()}
    return {name: value for name, value in found.items() if name not in values}

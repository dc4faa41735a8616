"""Settings: names, defaults, checks."""

from __future__ import annotations

"""Which job of which queue is claimed next: limits, fair shares, slow start."""

from __future__ import annotations

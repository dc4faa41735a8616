"""Alert rules, their conditions, and the state of an alert."""

from __future__ import annotations

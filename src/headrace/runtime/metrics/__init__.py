"""Collects, rolls up and reads metrics."""

from __future__ import annotations

"""Counts and durations in buckets of time."""

from __future__ import annotations

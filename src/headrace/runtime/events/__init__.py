"""Followers and handlers of events."""

from __future__ import annotations

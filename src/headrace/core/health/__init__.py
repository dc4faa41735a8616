"""Findings about a store, and the resources of a process."""

from __future__ import annotations

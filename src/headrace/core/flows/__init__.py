"""Graphs of jobs."""

from __future__ import annotations

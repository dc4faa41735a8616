"""The handles: tasks, jobs, runs of flows."""

from __future__ import annotations

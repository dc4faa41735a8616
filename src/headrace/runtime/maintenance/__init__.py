"""Maintenance that workers do beside their jobs."""

from __future__ import annotations

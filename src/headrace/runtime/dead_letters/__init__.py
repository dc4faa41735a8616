"""Automatic requeues of dead letters."""

from __future__ import annotations

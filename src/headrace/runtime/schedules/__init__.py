"""The scheduler."""

from __future__ import annotations

"""Bells: how a process learns that there is work, without polling."""

from __future__ import annotations

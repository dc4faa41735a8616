"""Flows, chains and groups as a user builds them."""

from __future__ import annotations

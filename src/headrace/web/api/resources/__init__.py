"""The REST API, a module for each resource."""

from __future__ import annotations

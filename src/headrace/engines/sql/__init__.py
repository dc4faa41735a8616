"""What SQLite and PostgreSQL share."""

from __future__ import annotations

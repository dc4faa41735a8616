"""The spool: jobs that wait in a local file while the store is unavailable."""

from __future__ import annotations

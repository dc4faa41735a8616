"""`app.alerts`."""

from __future__ import annotations

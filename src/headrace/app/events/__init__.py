"""`app.events` and `app.webhooks`."""

from __future__ import annotations

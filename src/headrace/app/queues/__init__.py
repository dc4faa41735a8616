"""`app.queue()`, `app.queues()`, and rules of tasks."""

from __future__ import annotations

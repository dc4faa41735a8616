"""`app.metrics`, and Prometheus' format."""

from __future__ import annotations

"""Dead letters as records, and when they are requeued."""

from __future__ import annotations

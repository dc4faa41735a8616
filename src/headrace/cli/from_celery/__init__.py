"""`headrace from-celery`: what of a Celery project carries over, read from its source."""

from __future__ import annotations

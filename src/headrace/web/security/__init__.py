"""Security over HTTP: credentials, sessions, rate limits."""

from __future__ import annotations

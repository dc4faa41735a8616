"""Large payloads: calls and results that a job refers to and that are stored outside its store."""

from __future__ import annotations

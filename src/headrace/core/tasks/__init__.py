"""What a user says of a task or a call: signature, options, retries, uniqueness, trace context."""

from __future__ import annotations

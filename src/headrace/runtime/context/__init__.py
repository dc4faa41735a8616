"""What a running job can ask and do: its context, steps, spawned jobs, logs, trace."""

from __future__ import annotations

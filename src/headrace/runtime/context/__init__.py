"""The context of a running job: its steps, spawned jobs, logs and trace."""

from __future__ import annotations

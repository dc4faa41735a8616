"""Events of jobs, the event log, job history, webhooks."""

from __future__ import annotations

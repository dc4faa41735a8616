"""Jobs as records: states, ids, outcomes, dependencies, steps, and the rules of uniqueness and of queues."""

from __future__ import annotations

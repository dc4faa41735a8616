"""`headrace copy`: all jobs of a store to another one."""

from __future__ import annotations

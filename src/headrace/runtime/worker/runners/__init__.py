"""Where tasks run: threads, the event loop of the worker, processes of their own."""

from __future__ import annotations

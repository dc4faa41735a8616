"""The interface between headrace and a store. Everything above uses a store through it alone."""

from __future__ import annotations

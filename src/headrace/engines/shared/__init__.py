"""What the engines share."""

from __future__ import annotations

"""Evaluates alert rules and delivers notifications."""

from __future__ import annotations

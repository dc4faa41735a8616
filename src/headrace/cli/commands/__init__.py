"""The commands, a module each; modules of one subject share a folder."""

from __future__ import annotations

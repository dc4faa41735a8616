"""`headrace mcp`: the Model Context Protocol over stdin and stdout."""

from __future__ import annotations

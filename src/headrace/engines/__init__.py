"""Floor 2: where jobs live. Everything above talks to a store through `protocol` alone."""

from __future__ import annotations

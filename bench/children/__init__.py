"""Programs that do the measured work in processes of their own, so that no measure inherits another's leftovers.

Each is started as `python -m bench.children.<name>` by `bench.child` and imports no more than its work needs.
"""

from __future__ import annotations

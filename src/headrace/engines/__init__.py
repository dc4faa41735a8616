"""Floor 2: the engines that store jobs. Everything above talks to a store through `protocol`.

Only `app/config.py` imports an engine, to open a store by its URL; `backup_file` is the format of backups.
"""

from __future__ import annotations

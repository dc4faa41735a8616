"""`python -m headrace` is the command `headrace`."""

from __future__ import annotations

import sys

from headrace.cli import main

if __name__ == "__main__":
    sys.exit(main())

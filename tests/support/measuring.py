"""What holds only in processes that are as they would be: `make coverage` loads a measure into each."""

from __future__ import annotations

import os

import pytest

# By these coverage tells the processes that are started that they are measured as well.
IS_MEASURED = any(os.environ.get(name) for name in ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"))

unless_measured = pytest.mark.skipif(IS_MEASURED, reason="coverage is loaded into every process, and weighs something")

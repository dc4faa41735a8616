"""How much of the machine others used while something was measured."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.scale.processors import Usage, usage

_SPIN = "import time\nwhile time.process_time() < 0.3: pass"


def test_others_are_whoever_is_not_us() -> None:
    assert (Usage(110, 60, 40) - Usage(100, 54, 38)) == Usage(10, 6, 2)
    assert Usage(10, 6, 2).others == pytest.approx(0.4)
    assert Usage(10, 6, 6.5).others == 0


@pytest.mark.skipif(usage() is None, reason="this system has no /proc")
def test_what_a_child_used_is_ours_after_its_end() -> None:
    before = usage()
    subprocess.run([sys.executable, "-c", _SPIN], check=True)
    after = usage()
    assert before is not None
    assert after is not None
    assert (after - before).ours > 0.25
    assert (after - before).ours <= (after - before).used + 0.05

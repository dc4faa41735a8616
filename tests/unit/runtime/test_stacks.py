"""Reading the stack of another thread never blocks the process, whatever the garbage collector does meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

from headrace.runtime.process.stacks import frame_of
from tests.support.processes import ROOT
from tests.support.waiting import PATIENCE

# Garbage with thread locals, collected at almost each allocation: Python 3.11 by itself stands still in a moment.
PROGRAM = """
import gc, threading
from headrace.runtime.process.stacks import frame_of

class Local(threading.local): ...

def litter():
    local = Local()
    local.itself = local

def work(ended):
    while not ended.is_set():
        litter()

ended = threading.Event()
workers = [threading.Thread(target=work, args=(ended,)) for _ in range(2)]
gc.set_threshold(5)
for worker in workers:
    worker.start()
for _ in range(20_000):
    litter()
    assert frame_of(workers[0].ident) is not None
ended.set()
assert gc.isenabled()
"""


def test_a_collection_in_the_middle_does_not_block_the_process() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", PROGRAM], env=env, timeout=PATIENCE, check=True)


def test_a_thread_that_ended_has_no_frame() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert frame_of(thread.ident) is None
    assert frame_of(None) is None
    assert frame_of(threading.get_ident()) is not None

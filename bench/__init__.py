"""Measures headrace on this machine, side by side with its bare engine and with huey. Run it as `python -m bench`.

    __main__.py   the command line
    measure.py    what a measure is: its figures, its ratios, its goals, and the ground it stands on
    measures/     one module for each question asked
    rounds.py     runs the measures in interleaved rounds and reduces them to medians
    report.py     the table and the JSON file; machine.py: the facts printed above them
    children/     the programs that do the measured work, each a process of its own
    child.py      starts and ends them; stage.py: their side of the conversation; board.py: what workers count
    tasks.py      the app and the jobs under test; peer.py: the same for huey

Nothing in `src` knows of this package, and it uses the engine below the app only where the bare engine is measured.
"""

from __future__ import annotations

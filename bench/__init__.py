"""Measures headrace on this machine, side by side with its bare engines and with peers. Run it as `python -m bench`.

    __main__.py   the command line
    measure.py    what a measure is: its figures, its ratios, its goals; sizes.py: how much work it does
    measures/     one module for each question asked
    ground.py     where measures take place: stores, files and peers of one engine
    places.py     makes the stores: files of SQLite, schemas of PostgreSQL, prefixes of Redis
    rounds.py     runs the measures in interleaved rounds and reduces them to medians
    report.py     the table and the JSON file; machine.py: the facts printed above them
    children/     the programs that do the measured work, each a process of its own
    child.py      starts and ends them; stage.py: their side of the conversation
    board.py      what workers count; chalk.py: their side of it
    tasks.py      the app and the jobs under test; draining.py: has workers run them; history.py: makes a store old
    scale/        how far each store carries: `python -m bench scale`
    peers.py      whom we are measured beside; environments.py: where they are installed; racing.py: has them run

Nothing in `src` knows of this package, and it uses the engine below the app only where the bare engine is measured and
where a store is made to look old. The servers are those of the tests, `tests/support/servers.py`.
"""

from __future__ import annotations

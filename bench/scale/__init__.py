"""How far each store carries: one thing grows at a time, and the rates are drawn over it. `python -m bench scale`.

command.py     the command line; run.py: walks the axes of each engine, step by step
axes.py        what grows, its steps, and what a store of a step consists of
probing.py     the rates of one step: enqueue_many, drain, enqueue to start, size
schedules.py   the axis of schedules, which has rates of its own
processors.py  how much of the machine others used meanwhile
rates.py       what the rates are called
readings.py    what was read, in a file that grows line by line, so that an end in the middle loses nothing
bend.py        where a curve bends; reasons.py: what is known of the cause
drawing.py     curves as a picture; log_scale.py: where a value lies on it
report.py      pictures, bends and sentences, made of the readings
"""

from __future__ import annotations

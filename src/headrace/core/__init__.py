"""Floor 1: values and rules. Pure: no I/O, and only `clock` may read the time."""

"""REST under /api/v1. An endpoint is one decorated function (`table.py`); `tables.py` gathers them all."""

"""REST under /api/v1. An endpoint is one decorated function (`routes.py`); `router.py` collects them all."""

"""Floor 5: the web. `asgi.py` puts it together: a guard at the door, the REST API, the dashboard.

asgi.py      what `app.asgi()` returns
server.py    what `headrace web` runs
guard.py     who comes in: credentials, sessions, forgery, limits, headers (doors.py, limits.py)
problems.py  what is refused, as RFC 9457 tells it
api/         REST under /api/v1: every endpoint once
live.py      events to browsers
pages/       the dashboard
"""

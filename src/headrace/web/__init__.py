"""Floor 5: the web. `asgi.py` combines the security middleware, the REST API and the dashboard.

asgi.py        the ASGI app of `app.asgi()`
wsgi.py        the WSGI app of `app.wsgi()`
server.py      the server of `headrace web`
security/      credentials, sessions, forgery checks, rate limits, headers
problems.py    errors as RFC 9457 problem documents
monitoring.py  health checks and Prometheus metrics
api/           REST under /api/v1
sse.py         server-sent events
pages/         the dashboard
"""

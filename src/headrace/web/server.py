"""The server of `headrace web`."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import threading
from types import FrameType
from typing import Any

import uvicorn

from headrace.app.app import Headrace
from headrace.core import networks
from headrace.core.settings.settings import Settings
from headrace.errors import ConfigError, HeadraceError
from headrace.runtime.alerts.evaluate import AlertCheck
from headrace.runtime.maintenance.loop import MaintenanceLoop, MaintenanceTask
from headrace.runtime.metrics.collector import MetricsCollector
from headrace.runtime.process.outage_log import outage_log
from headrace.web.asgi import Web, make, settings_with

log = logging.getLogger("headrace.web")
_SHUTDOWN_TIMEOUT = 5  # seconds for open requests at shutdown


def serve(app: Headrace, **options: Any) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    settings = settings_with(app, options)
    require_credentials(settings)
    web = make(app, **options)
    listener = _listen(settings.web_host, settings.web_port)
    config = uvicorn.Config(
        web,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        forwarded_allow_ips=["*" if proxy == networks.ANY else proxy for proxy in settings.web_trusted_proxies],
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
    )
    outages = outage_log(app.engine)
    maintenance = MaintenanceLoop(_maintenance_tasks(app, settings), has_jobs=lambda: False, outage_log=outages)
    maintenance.start()
    try:
        return _run(uvicorn.Server(config), web, listener)
    finally:
        maintenance.stop()
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    """Open the listening socket; connections queue until the server starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise HeadraceError(f"can't listen on {host}:{port}: {error.strerror or error}".lower()) from None


def _maintenance_tasks(app: Headrace, settings: Settings) -> list[MaintenanceTask]:
    """Background services that run even without a worker, such as the alert that no worker is alive."""
    tasks: list[MaintenanceTask] = []
    if settings.web_read_only:
        return tasks
    if settings.metrics:
        tasks.append(MetricsCollector(app.engine, settings))
    if settings.alert_check:
        tasks.append(AlertCheck(app.engine, settings, settings.alert_check))
    return tasks


def _run(server: uvicorn.Server, web: Web, listener: socket.socket) -> int:
    """Run the server in a second thread; this one handles signals, because uvicorn would wait for endless streams."""
    stopped = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        server.force_exit = server.should_exit  # a second signal forces the exit
        server.should_exit = True
        stopped.set()

    def run() -> None:
        try:
            server.run([listener])
        finally:
            stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    thread = threading.Thread(target=run, name="headrace-web", daemon=True)
    thread.start()
    host, port = listener.getsockname()[:2]
    log.info("serving on http://%s:%d", f"[{host}]" if ":" in host else host, port)
    web.warm_up()
    stopped.wait()
    web.end()
    thread.join()
    return 0 if server.started else 1


def require_credentials(settings: Settings) -> None:
    """Refuse to serve the network without credentials."""
    if settings.web_auth or settings.web_tokens or _is_loopback(settings.web_host):
        return
    raise ConfigError(
        f"web_host: {settings.web_host} is reachable from other machines, and no credentials are set; set "
        "HEADRACE_WEB_AUTH=user:password or HEADRACE_WEB_TOKENS=token, or serve on 127.0.0.1"
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

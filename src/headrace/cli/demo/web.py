"""`headrace demo --web`: a sample shop with workers and the dashboard, on a temporary store, until Ctrl-C."""

from __future__ import annotations

import importlib
import os
import socket
from contextlib import closing

from headrace.app.surfaces import serve_web
from headrace.cli.demo.environment import DemoEnvironment
from headrace.cli.output import paint, say
from headrace.runtime.context.logs import configure_logs

USUAL_PORT = 8080
_SHOP = "headrace.cli.demo.shop"
_WORKERS = 2


def serve_shop(environment: DemoEnvironment, port: int | None) -> int:
    """Fill the shop, start its workers, and serve the dashboard until a signal; the exit code."""
    configure_logs(level="WARNING,headrace.alerts=CRITICAL")  # the dashboard shows alerts
    os.environ["HEADRACE_SHUTDOWN_TIMEOUT"] = "2"  # of the workers; the environment restores the variables
    # Import only now, as the tour does: the module opens the store in HEADRACE_URL.
    shop = importlib.import_module(_SHOP)
    with closing(shop.app):
        shop.fill()
        for _ in range(_WORKERS):
            environment.start_worker(shop.app, f"{_SHOP}:app")
        chosen = _free_port() if port is None else port
        _print_guide(environment, f"http://127.0.0.1:{chosen}")
        code = serve_web(shop.app, {"host": "127.0.0.1", "port": chosen})
        say("\nstopping the workers")
        environment.stop_workers()
    return code


def _free_port() -> int:
    """The usual port, or any free one."""
    for port in (USUAL_PORT, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as found:
                return int(found.getsockname()[1])
        except OSError:
            continue
    return USUAL_PORT  # the server reports why it can't listen


def _print_guide(environment: DemoEnvironment, url: str) -> None:
    say(f"{paint('A shop is open:', bold=True)} {paint(url, 'cyan')}")
    say("It takes orders until you press Ctrl-C; its store is a temporary file. Look for")
    say("    Overview        a paused queue, rates, waits and errors as they change")
    say("    Dead letters    declined cards, grouped by their cause; requeue or resolve them")
    say("    Flows           an order: charge, then pack and mail, then ship")
    say("    Jobs            the job of the task train, and why it waits")
    say("In another terminal:")
    say(f"    headrace --url {environment.url} top")
    say(f"    headrace --url {environment.url} doctor")

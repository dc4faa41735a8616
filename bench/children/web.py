"""The web surface of a store, until its standard input ends: `web PORT`."""

from __future__ import annotations

import sys
import threading
import time

import uvicorn

from bench.stage import store
from bench.tasks import open_subject
from headrace.web.asgi import make


def main(port: str) -> None:
    with open_subject(*store()).app as app:
        web = make(app, rate=None)
        web.warm_up()
        config = uvicorn.Config(web, host="127.0.0.1", port=int(port), log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        print("ready", flush=True)
        sys.stdin.read()
        server.should_exit = server.force_exit = True
        thread.join(5)


if __name__ == "__main__":
    main(*sys.argv[1:])

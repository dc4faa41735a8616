"""Real receivers of alerts on this host: a web server and a mail server, which remember what they were sent."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hook:
    """A web server that answers with `status`, and what it was sent."""

    def __init__(self) -> None:
        self.status = 200
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.url = ""


@contextlib.contextmanager
def web_server() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            hook.got.append((self.path, {name.lower(): text for name, text in self.headers.items()}, body))
            self.send_response(hook.status)
            if 300 <= hook.status < 400:
                self.send_header("location", f"{hook.url}/elsewhere")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.url = f"http://127.0.0.1:{server.server_port}"
    with _serving(server):
        yield hook


class Mailbox:
    """A mail server that speaks SMTP without TLS, and what it was sent. It refuses addresses that begin with `no`."""

    def __init__(self) -> None:
        self.port = 0
        self.messages: list[str] = []
        self.envelopes: list[list[str]] = []


@contextlib.contextmanager
def mail_server() -> Iterator[Mailbox]:
    box = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            self.say("220 mail ready")
            envelope: list[str] = []
            for raw in self.rfile:
                line = raw.decode().strip()
                word = line.partition(" ")[0].upper()
                if word in ("MAIL", "RCPT"):
                    envelope.append(line)
                    self.say("550 nobody here" if "<no" in line else "250 ok")
                elif word == "DATA":
                    self.say("354 go on")
                    lines = iter(self.rfile.readline, b".\r\n")
                    box.messages.append(b"".join(lines).decode())
                    box.envelopes.append(envelope)
                    self.say("250 taken")
                elif word == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 ok")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    box.port = server.server_address[1]
    with _serving(server):
        yield box


@contextlib.contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)

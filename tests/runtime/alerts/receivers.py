"""Real receivers of alerts on this host: a web server and a mail server, which remember what they were sent."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
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
    """A mail server that speaks SMTP, and what it was sent. It refuses addresses that begin with `no`.

    `secured` are the commands that came over TLS, `bare` those that did not.
    """

    def __init__(self) -> None:
        self.port = 0
        self.farewell = "221 bye"
        self.messages: list[str] = []
        self.envelopes: list[list[str]] = []
        self.secured: list[str] = []
        self.bare: list[str] = []


class _Conversation:
    """The commands of one connection."""

    def __init__(self, box: Mailbox, connections: socket.socket, tls: ssl.SSLContext | None, is_secure: bool) -> None:
        self._box = box
        self._connections = connections
        self._tls = tls
        self._is_secure = False
        self._envelope: list[str] = []
        self._answers = {"MAIL": self._note, "RCPT": self._note, "DATA": self._take, "EHLO": self._greet}
        if is_secure:
            self._secure()
        else:
            self._file = connections.makefile("rb")

    def _secure(self) -> None:
        assert self._tls is not None
        self._connections = self._tls.wrap_socket(self._connections, server_side=True)
        self._file = self._connections.makefile("rb")
        self._is_secure = True

    def _reply(self, *lines: str) -> None:
        self._connections.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def hold(self) -> None:
        try:
            self._reply("220 mail ready")
            while line := self._file.readline().decode().strip():
                command = line.partition(" ")[0].upper()
                (self._box.secured if self._is_secure else self._box.bare).append(command)
                if command == "STARTTLS" and self._tls is not None:
                    self._reply("220 go on")
                    self._secure()
                elif command == "QUIT":
                    self._reply(self._box.farewell)
                    return
                else:
                    self._answers.get(command, self._agree)(line)
        finally:
            self._file.close()
            self._connections.close()

    def _agree(self, line: str) -> None:
        self._reply("235 known" if line.startswith("AUTH") else "250 ok")

    def _greet(self, line: str) -> None:
        offers = [] if self._tls is None else ["250-AUTH PLAIN" if self._is_secure else "250-STARTTLS"]
        self._reply("250-mail", *offers, "250 HELP")

    def _note(self, line: str) -> None:
        self._envelope.append(line)
        self._reply("550 nobody here" if "<no" in line else "250 ok")

    def _take(self, line: str) -> None:
        self._reply("354 go on")
        self._box.messages.append(b"".join(iter(self._file.readline, b".\r\n")).decode())
        self._box.envelopes.append(self._envelope)
        self._reply("250 taken")


@contextlib.contextmanager
def mail_server(tls: ssl.SSLContext | None = None, *, at_once: bool = False) -> Iterator[Mailbox]:
    """Without TLS; with it when STARTTLS is said; or with it from the start."""
    box = Mailbox()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(ssl.SSLError, ConnectionError):  # a client that does not trust us disconnects
                _Conversation(box, self.request, tls, at_once).hold()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def shutdown_request(self, request: Any) -> None:
            with contextlib.suppress(OSError):  # the conversation has closed it
                super().shutdown_request(request)

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

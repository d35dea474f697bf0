"""The HTTP of the stand-ins for servers of models: on loopback, with kept connections, silent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """One connection; `respond` is called for each request, whose content is `content`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement
    content: bytes

    def respond(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        self.content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.respond()

    def send(
        self, status: int, content: str | bytes, *, kind: str = "application/json", **headers: str
    ) -> None:
        """Answer; `_` in the name of a header stands for `-`."""
        content = content.encode() if isinstance(content, str) else content
        self.send_response(status)
        for name, value in ({"Content-Type": kind} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """The test's output is not a log."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Close what clients keep open, too: a process that ends does."""
        super().server_close()
        for connection in list(self.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is no news."""


@contextmanager
def serving(handler: type[Handler], port: int = 0) -> Iterator[int]:
    """Serve on a port of the loopback interface, a free one for 0; yield its number."""
    with _Server(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()

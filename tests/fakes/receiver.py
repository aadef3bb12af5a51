"""A real receiver of webhooks on loopback, well or badly behaved."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Keep what came; `status` is answered, 0 = nothing is, until `let_go`."""

    def __init__(self) -> None:
        self.status = 200
        self.came: list[tuple[dict[str, str], bytes]] = []
        self.asked = threading.Event()
        self.let_go = threading.Event()
        self.url = ""

    @property
    def alerts(self) -> list[Any]:
        return [json.loads(body) for _, body in self.came]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Serve on a free port until the end of the block."""
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.came.append(({name.lower(): value for name, value in self.headers.items()}, body))
            kept.asked.set()
            if kept.status == 0:
                kept.let_go.wait(60)
                self.close_connection = True
                return
            self.send_response(kept.status)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.url = f"http://127.0.0.1:{server.server_port}/alerts"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield kept
    finally:
        kept.let_go.set()
        server.shutdown()
        thread.join()
        server.server_close()

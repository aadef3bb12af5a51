"""Carry one request to the application and its answer back, as a server of HTTP would, all of it in one piece."""

from typing import Any

import httpx
from starlette.types import Message, Scope


class Call:
    """Be one request as the application sees it (ASGI 3.0); `answer` is what it said."""

    def __init__(self, request: httpx.Request) -> None:
        url = request.url
        self._request = request
        self._body: bytes | None = request.read()
        self._said: list[Message] = []
        self.scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.split(b"?")[0],
            "query_string": url.query,
            "server": (url.host, url.port),
            "client": ("127.0.0.1", 123),
            "root_path": "",
        }

    async def receive(self) -> Message:
        """Give the body, and then that nobody listens any more."""
        body, self._body = self._body, None
        return {"type": "http.disconnect"} if body is None else {"type": "http.request", "body": body}

    async def send(self, message: Any) -> None:
        """Take a part of the answer."""
        self._said.append(message)

    def answer(self) -> httpx.Response:
        """Return what was said, in one piece."""
        start, *parts = self._said
        body = b"".join(part.get("body", b"") for part in parts)
        return httpx.Response(start["status"], headers=start.get("headers", []), content=body, request=self._request)

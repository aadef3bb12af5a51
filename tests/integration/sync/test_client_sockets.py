"""The client over real sockets: what a line that breaks really looks like."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from app.services.ports import Offline
from sync.client import ServerClient

PATIENCE_S = 20.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@contextmanager
def answering(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Accept connections and let `talk` answer each; yield the URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                if done.is_set():
                    return
                connection.settimeout(PATIENCE_S)
                talk(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        done.set()
        # A thread in `accept` is woken by a guest, not by closing the door under it.
        with socket.create_connection(listener.getsockname()):
            pass
        thread.join(PATIENCE_S)
        listener.close()


def reads(connection: socket.socket) -> None:
    connection.recv(65_536)


def asked(url: str, **limits: float) -> str:
    """Ask once and return why there was no answer."""
    with ServerClient(url, "pt_k_secret", **limits) as client, pytest.raises(Offline) as caught:  # type: ignore[arg-type]
        client.get("/v1/orders/o1")
    return str(caught.value)


def test_nobody_listening_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    assert asked(f"http://127.0.0.1:{port}") == "unreachable"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 20",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        HEAD + b"content-length: 100\r\n\r\n" + b'{"outcome": "ok"',
        HEAD + b'transfer-encoding: chunked\r\n\r\n5\r\n{"out',
        HEAD + b"content-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope",
    ],
    ids=["nothing", "half a line", "no http", "half a body", "half a chunk", "no gzip"],
)
def test_a_line_that_breaks_off_is_cut(answer: bytes) -> None:
    def talk(connection: socket.socket) -> None:
        reads(connection)
        connection.sendall(answer)

    with answering(talk) as url:
        assert asked(url) == "cut"


def test_a_server_that_never_answers_is_given_up() -> None:
    release = threading.Event()

    def talk(connection: socket.socket) -> None:
        reads(connection)
        release.wait(PATIENCE_S)

    with answering(talk) as url:
        reason = asked(url, answer_timeout_s=0.05)
        release.set()

    assert reason == "no_answer"


def test_a_port_that_does_not_speak_tls_is_unreachable_by_https() -> None:
    def talk(connection: socket.socket) -> None:
        reads(connection)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with answering(talk) as url:
        assert asked(url.replace("http:", "https:")) == "unreachable"


def test_one_connection_carries_many_requests() -> None:
    guests: list[int] = []
    body = b'{"outcome": "ok"}'

    def talk(connection: socket.socket) -> None:
        guests.append(1)
        while connection.recv(65_536):
            connection.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)

    with answering(talk) as url, ServerClient(url, "pt_k_secret") as client:
        answers = [client.get("/v1/orders/o1") for _ in range(3)]

    assert (answers, guests) == ([{"outcome": "ok"}] * 3, [1])

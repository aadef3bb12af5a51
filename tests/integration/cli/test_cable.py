"""Pull a real cable between real sockets."""

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from cli.cable import Cable


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        try:
            while data := self.request.recv(65536):
                self.request.sendall(data)
        except ConnectionError:
            pass


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    with _Server(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield ("127.0.0.1", server.server_address[1])
        server.shutdown()
        thread.join()


def _plug_in(cable: Cable) -> socket.socket:
    return socket.create_connection(("127.0.0.1", cable.port), timeout=5)


def _exchange(end: socket.socket, data: bytes) -> bytes:
    end.sendall(data)
    answer = b""
    while len(answer) < len(data):
        part = end.recv(65536)
        if not part:
            break
        answer += part
    return answer


def test_a_cable_carries_bytes_both_ways(echo: tuple[str, int]) -> None:
    big = bytes(range(256)) * 4096

    with Cable(echo) as cable, _plug_in(cable) as one, _plug_in(cable) as other:
        answers = _exchange(one, big), _exchange(other, b"scan")

    assert answers == (big, b"scan")


def test_the_end_of_one_direction_leaves_the_answer_of_the_other(echo: tuple[str, int]) -> None:
    with Cable(echo) as cable, _plug_in(cable) as end:
        end.sendall(b"last words")
        end.shutdown(socket.SHUT_WR)

        answer = b"".join(iter(lambda: end.recv(4096), b""))

    assert answer == b"last words"


def test_cutting_breaks_an_open_connection(echo: tuple[str, int]) -> None:
    with Cable(echo) as cable, _plug_in(cable) as end:
        _exchange(end, b"hello")

        cable.cut()

        with pytest.raises(ConnectionResetError):
            end.recv(1)
        assert cable.is_cut


def test_a_cut_cable_refuses_new_connections(echo: tuple[str, int]) -> None:
    with Cable(echo) as cable:
        cable.cut()

        with pytest.raises(ConnectionRefusedError):
            _plug_in(cable)


def test_a_mended_cable_carries_again_on_the_same_port(echo: tuple[str, int]) -> None:
    with Cable(echo) as cable:
        before = cable.port
        cable.cut()
        cable.cut()

        cable.mend()
        cable.mend()

        with _plug_in(cable) as end:
            assert (_exchange(end, b"again"), cable.port) == (b"again", before)


def test_a_cable_to_nowhere_breaks_off_whoever_connects() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = unused.getsockname()

        # The break may come before the caller even hears that it was connected.
        with Cable(nowhere) as cable, pytest.raises(ConnectionResetError), _plug_in(cable) as end:
            end.recv(1)


def test_connections_that_ended_leave_nothing_behind(echo: tuple[str, int]) -> None:
    with Cable(echo) as cable:
        for _ in range(5):
            with _plug_in(cable) as end:
                _exchange(end, b"x")
                end.shutdown(socket.SHUT_WR)
                end.recv(1)

        _join_carriers()

        assert not cable._ends


def _join_carriers() -> None:
    for thread in threading.enumerate():
        target = getattr(thread, "_target", None)
        if getattr(target, "__name__", "") == "_carry":
            thread.join(5)

"""Be a cable between till and server that can be pulled: a TCP forwarder on 127.0.0.1."""

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Self

_CHUNK_BYTES = 64 * 1024
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with 0 seconds: closing sends RST and drops what is on its way, as a pulled plug does."""


class Cable:
    """Forward every connection to `target` until it is cut; `port` stays the same all its life.

    Cut, it breaks open connections in the middle and refuses new ones, so whoever waits for an answer gets none.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.port = 0
        self.mend()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    @property
    def is_cut(self) -> bool:
        """Tell whether it is pulled."""
        return self._listener is None

    def cut(self) -> None:
        """Pull the plug; a second pull changes nothing."""
        with self._lock:
            listener, self._listener = self._listener, None
            ends, self._ends = self._ends, set()
        if listener is not None:
            _wake(listener)
            listener.close()
        for end in ends:
            _break(end)

    def mend(self) -> None:
        """Plug it in again, on the same port; raises OSError where another program has taken that meanwhile."""
        with self._lock:
            if self._listener is not None:
                return
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self.port = self._listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(self._listener,), name="cable", daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _address = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(listener, near), name="cable", daemon=True).start()

    def _carry(self, listener: socket.socket, near: socket.socket) -> None:
        """Carry one connection until both directions have ended, or the plug is pulled."""
        try:
            far = socket.create_connection(self._target, timeout=5)
        except OSError:
            _break(near)
            return
        far.settimeout(None)
        with self._lock:
            plugged_in = self._listener is listener
            if plugged_in:
                self._ends |= {near, far}
        if plugged_in:
            back = threading.Thread(target=self._pump, args=(far, near), name="cable", daemon=True)
            back.start()
            self._pump(near, far)
            back.join()
        with self._lock:
            self._ends -= {near, far}
        for end in (near, far):
            _break(end)

    def _pump(self, source: socket.socket, drain: socket.socket) -> None:
        """Carry one direction to its end, then say so downstream; the other direction may still have an answer."""
        try:
            while data := source.recv(_CHUNK_BYTES):
                drain.sendall(data)
            if drain in self._ends:
                drain.shutdown(socket.SHUT_WR)
        except OSError:
            # One side broke off: so must the other, or it would wait for what never comes.
            for end in (source, drain):
                _wake(end)


def _wake(end: socket.socket) -> None:
    """Let a thread go that sits in `accept` or `recv`: closing alone does not."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RD)


def _break(end: socket.socket) -> None:
    """Close with a reset; where everything has been said already, that is a close like any other."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    _wake(end)
    end.close()

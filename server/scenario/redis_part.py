"""Be the Redis of all scenarios of a run: the bundled server, killed and started again as a file says.

One process serves one world after another, each under keys of its own. Where no server is bundled (Windows), campaigns
stay on the database arbiter, as in a server there.
"""

import contextlib
import os
import shutil
import signal
from pathlib import Path

from server.stock.door import Door
from server.stock.embedded import EmbeddedRedis, NotBundled


class RedisPart:
    """Run the bundled server in `folder` from the first time that somebody needs it.

    As a probe it is passed by every point of the server, and dies at the one that it is armed for; the server lives on.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._embedded: EmbeddedRedis | None = None
        self._worlds = 0
        self._armed: str | None = None
        self._lose_all = False
        self.died = False

    def door(self, *, again: Door | None = None) -> Door | None:
        """Return a door for one world, to keys of its own or to those it had; None where nothing is bundled."""
        if not self.start():
            return None
        assert self._embedded is not None, "it was started"
        if again is not None:
            return Door(self._embedded.address, prefix=again.prefix)
        self._worlds += 1
        return Door(self._embedded.address, prefix=f"world{self._worlds}:")

    def start(self) -> bool:
        """Start it, or start it again; nothing where it runs. False where nothing is bundled."""
        if self._embedded is None:
            try:
                self._embedded = EmbeddedRedis(self._folder)
            except NotBundled:
                return False
            self._embedded.start()
        self._armed, self._lose_all, self.died = None, False, False
        return True

    def arm(self, when: str, *, lose_all: bool) -> None:
        """Choose the point at which it dies, by its name in FORMAT; `lose_all` = with its files."""
        self._lose_all = lose_all
        if when == "now":
            self._die()
        else:
            self._armed = when

    def disarm(self) -> None:
        """Wait for no point any more."""
        self._armed = None

    def __call__(self, point: str) -> None:
        """Pass a point, or die at it."""
        if self._armed == point:
            self._armed = None
            self._die()

    def _die(self) -> None:
        """End as by a power cut: nobody is told, and what was not on the disk is gone."""
        self.died = True
        if self._embedded is None:
            return
        pid = self._embedded.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
        self._embedded.stop()
        if self._lose_all:
            shutil.rmtree(self._embedded.folder / "appendonlydir", ignore_errors=True)
        self._embedded = None

    def stop(self) -> None:
        """End it for good."""
        if self._embedded is not None:
            self._embedded.stop()
            self._embedded = None

"""Open the door to the Redis that the settings name, or to the bundled one."""

from pathlib import Path

import structlog

from server.stock.connection import read_address
from server.stock.door import Door
from server.stock.embedded import EmbeddedRedis, NotBundled

NONE = "none"

log = structlog.get_logger("pawtill.redis")


def check_url(url: str) -> None:
    """Raise BadAddress, a ValueError, where `open_door` would."""
    if url and url != NONE:
        read_address(url)


def open_door(url: str, folder: Path, *, prefix: str = "") -> Door | None:
    """Return the door; None = there is no Redis, and campaigns stay on the database arbiter, which is said.

    `url` is empty for the bundled server with its data in `folder`, `none`, or an address (BadAddress where it makes
    no sense). One that does not answer now is no reason not to start: its campaigns are busy until it does.
    """
    if url == NONE:
        log.info("no redis: every campaign stays on the database arbiter", reason="set to none")
        return None
    if url:
        return Door(read_address(url), prefix=prefix)
    try:
        embedded = EmbeddedRedis(folder)
    except NotBundled as error:
        log.warning("no redis: every campaign stays on the database arbiter", reason=str(error))
        return None
    if not embedded.start():
        log.warning("the bundled redis does not answer yet", log=str(embedded.folder / "redis.log"))
    return Door(embedded.address, prefix=prefix, embedded=embedded)

"""Let the tills of a chain inside one process speak by name: signing would cost them twice what a request costs.

Nobody else can speak on such a line. A server that listens knows nothing of it: no setting leads here.
"""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from app.domain.refusals import Refusal
from server.services import catalog, devices, keys
from server.services.context import Actor, Context

_PREFIX = "till_"


def take_in(conn: Connection, ctx: Context, till_id: str, *, store_id: str) -> str | Refusal:
    """Set a till as if it had enrolled, by a key that nobody has; return its name, the only one that counts now."""
    problem = catalog.set_till(conn, ctx, till_id, store_id=store_id)
    if problem is not None:
        return problem
    key_id, nobodys = ctx.ids.new(), Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    devices.take_in(conn, ctx, till_id, key_id=key_id, public_key=nobodys, certificate="")
    return _PREFIX + key_id


def who(conn: Connection, token: str) -> Actor | None:
    """Tell who comes with a till's name, or with a key (`keys.authenticate`)."""
    if not token.startswith(_PREFIX):
        return keys.authenticate(conn, token)
    device = devices.find(conn, token.removeprefix(_PREFIX))
    return device.actor if device is not None else None

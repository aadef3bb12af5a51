"""Hold the scripts that run inside Redis: one operation, one file; `server/stock/scripts.py` types each of them.

The keys of a campaign share one hash tag, `{inv:<campaign>}:`, so that one node of a cluster has them all:

    h  hash    gen, state, avail, stocked, total, limit, window, rate; and counters of the other keys
    r  hash    request -> the reservation that is open: "qty|deadline|token|fingerprint|member"
    u  hash    member -> coupons held, reserved ones included
    d  zset    open requests by deadline (ms): until then the process that took one lands it, afterwards anybody
    s  stream  open reservations in the order of their coming: the queue of what is to land

`r`, `d` and `s` hold the same requests; `h` counts them (`nr`), the members of `u` (`nu`) and the units reserved
(`units`). Where the counters contradict the keys, something was lost, and every script answers CORRUPT.

Redis admits, the database decides: `avail + units` is what the database has available, once all that is decided is
also confirmed. Nothing here reads a clock; times are the server's, in milliseconds since 1970.
"""

from importlib.resources import files

NAMES = ("adjust", "close", "configure", "confirm", "inspect", "install", "release", "reserve")


def read(name: str) -> str:
    """Return the text of a script."""
    return (files(__name__) / f"{name}.lua").read_text("utf-8")

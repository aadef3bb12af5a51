"""Make ids that sort by the time of their making: UUIDv7 (RFC 9562, sections 5.7 and 6.2, method 1).

Clock and chance come in as arguments; till, server, demo and scenarios each bring their own.
"""

_COUNT_BITS = 12


def next_tick(last: int, now_ms: int) -> int:
    """Return the tick behind `last` (0 = none yet): milliseconds since 1970, and 12 bits that count within one.

    The counter borrows from the next millisecond when it runs over; a clock that goes back changes nothing.
    """
    return max(last + 1, now_ms << _COUNT_BITS)


def uuid7(tick: int, chance: int) -> str:
    """Return 32 hex digits: the tick's milliseconds and count, version, variant, and `chance` (62 random bits)."""
    millisecond, count = tick >> _COUNT_BITS, tick & 0xFFF
    return f"{millisecond << 80 | 7 << 76 | count << 64 | 0b10 << 62 | chance:032x}"

"""Name what keeps Redis from answering now; nothing was granted then, since the database decides."""

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,
)

ERRORS = (RedisError, RedisClusterException, OSError)
"""What redis-py and the network raise; those of a Cluster's client are no RedisError."""


class StockTrouble(Exception):
    """Say that Redis did not answer as it should; `word` is stable, for answers, logs and metrics."""

    word = "redis_down"


class StockUnreachable(StockTrouble):
    """Say that no connection is to be had, or that the answer did not come in time."""


class StockRestarted(StockTrouble):
    """Say that this Redis is not the one that was looked at: another process, perhaps with an older snapshot."""

    word = "redis_restarted"


class StockFull(StockTrouble):
    """Say that Redis has reached its `maxmemory`, where it refuses every write rather than evict."""

    word = "redis_full"


class StockReadOnly(StockTrouble):
    """Say that this Redis is a replica: somebody else has the counters."""

    word = "redis_read_only"


class StockLoading(StockTrouble):
    """Say that Redis is reading its file after a start."""

    word = "redis_loading"


class StockDamaged(StockTrouble):
    """Say that a key of a campaign is not what the scripts made of it."""

    word = "redis_corrupt"


class Restarted(RedisError):
    """Refuse a new connection, inside of redis-py: behind it is a process that nobody has looked at."""


def trouble_of(error: BaseException) -> StockTrouble | None:
    """Return the trouble behind an error of redis-py or of the network, None where it is something else (a bug)."""
    for kinds, trouble in _TROUBLES:
        if isinstance(error, kinds):
            return trouble(str(error)[:200])
    text = str(error)
    if isinstance(error, ResponseError):
        # An error inside of a script comes with the script's name in front or behind, depending on the version.
        for word, trouble in _BY_WORD.items():
            if word in text:
                return trouble(text[:200])
    return None


_TROUBLES: tuple[tuple[tuple[type[BaseException], ...], type[StockTrouble]], ...] = (
    ((Restarted,), StockRestarted),
    ((OutOfMemoryError,), StockFull),
    ((ReadOnlyError,), StockReadOnly),
    ((BusyLoadingError,), StockLoading),
    ((AuthenticationError,), StockTrouble),
    ((ClusterDownError, ConnectionError, TimeoutError, OSError), StockUnreachable),
    ((RedisClusterException,), StockUnreachable),
)
_BY_WORD: dict[str, type[StockTrouble]] = {
    "OOM ": StockFull,
    "READONLY": StockReadOnly,
    "MASTERDOWN": StockReadOnly,
    "NOREPLICAS": StockReadOnly,
    "WRONGTYPE": StockDamaged,
    "BUSY ": StockUnreachable,
    "LOADING": StockLoading,
    "MISCONF": StockFull,
    "NOPERM": StockTrouble,
    "NOAUTH": StockTrouble,
}

"""Look at a Redis before campaigns are put on it, and say what is wrong with its settings (REQUIREMENTS A5)."""

from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from server.stock.trouble import ERRORS, trouble_of

VERSION_MIN = 7
"""Redis 7 carries a script's effects and never its text into file and replicas, and has no cache of scripts there."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Tell what is wrong with a Redis: `word` is stable; where it `forbids`, no campaign is put there."""

    word: str
    text: str
    forbids: bool


@dataclass(frozen=True, slots=True)
class Look:
    """Hold what one look saw: the processes (run_id by node, "" = the only one), and what is wrong."""

    run_ids: dict[str, str]
    problems: tuple[Problem, ...]

    @property
    def forbidden(self) -> Problem | None:
        """Return the first problem that forbids the use, None = it may be used."""
        return next((each for each in self.problems if each.forbids), None)


def look(client: Any) -> Look:
    """Look at every primary of a client that has no acquaintance; raises a StockTrouble where it cannot be reached."""
    try:
        return _look(client)
    except ERRORS as error:
        raise trouble_of(error) or error from error


def _look(client: Any) -> Look:
    if not hasattr(client, "get_primaries"):
        info = client.info()
        found = problems_of(info, _settings(client))
        if info.get("cluster_enabled"):
            # It would answer for its own part of the campaigns, and send us elsewhere with the others.
            found.append(Problem("in_cluster", "it is a node of a Cluster; name it as redis+cluster://", True))
        return Look({"": str(info["run_id"])}, tuple(found))
    run_ids: dict[str, str] = {}
    problems: list[Problem] = []
    client.nodes_manager.initialize()
    for node in client.get_primaries():
        own = client.get_redis_connection(node)
        info = own.info()
        run_ids[node.name] = str(info["run_id"])
        problems += [Problem(p.word, f"{node.name}: {p.text}", p.forbids) for p in problems_of(info, _settings(own))]
    return Look(run_ids, tuple(problems))


def _settings(client: Any) -> dict[str, str] | None:
    """Read the settings; None where this user may not, as on most hosted servers."""
    try:
        found: dict[str, str] = {}
        for name in ("maxmemory-policy", "appendonly", "save"):
            found.update(client.config_get(name))
    except RedisError as error:
        if trouble_of(error) is not None and "NOPERM" not in str(error):
            raise
        return None
    return {_text(key): _text(value) for key, value in found.items()}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def problems_of(info: dict[str, Any], settings: dict[str, str] | None) -> list[Problem]:
    """Judge what INFO and CONFIG say; INFO tells the policy, too, where CONFIG is not to be asked."""
    found: list[Problem] = []
    version = str(info.get("redis_version", "0"))
    if "valkey_version" not in info and int(version.partition(".")[0]) < VERSION_MIN:
        found.append(Problem("too_old", f"Redis {version} is too old; {VERSION_MIN} or any Valkey is needed", True))
    if info.get("role") not in ("master", None):
        found.append(Problem("replica", "it is a replica and takes no writes; name the primary", True))
    policy = (settings or {}).get("maxmemory-policy") or str(info.get("maxmemory_policy", ""))
    if policy != "noeviction":
        found.append(Problem("evicts", f"maxmemory-policy is {policy or 'unknown'}; set it to noeviction", True))
    kept = settings is None or settings.get("appendonly") == "yes" or bool(settings.get("save"))
    if not kept or (settings is None and not info.get("aof_enabled")):
        text = "nothing is kept over a restart, so counters are rebuilt each time; set appendonly to yes"
        found.append(Problem("not_kept", text, False))
    return found

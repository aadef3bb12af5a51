"""Let the tills of a chain of 10,000 pull one change of a campaign, and see what that takes and what it does to others.

Real server, a process of its own, over TLS; 10,000 tills in its books (1,000 in a quick run), each with a key. One
change of a campaign is published, then sessions begin in the order of time that the server's own pace gives such a
chain (`server/services/pace.py`), for a while: a new connection with its handshake, a signed greeting, a signed pull
that brings the change, both answers checked, by the client that tills have. Meanwhile headquarters asks for the
campaign twenty times a second, as it does before.

`session_cpu_ms` is what the server's processor spends on one session, and `processors` what all of them take at that
pace: a figure above 1 would be more than one processor. `told_s` is when the last till has the change; `asked_p99_ms`
what headquarters waits meanwhile, `over_quiet` against what it waits without them.
"""

import os
import random
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import Connection, insert

from app.services.system import SystemClock
from cli.server_process import ServerProcess
from server.db.schema import device, till
from server.opening import open_services
from server.provision import ChainPlan, provision
from server.services import campaigns, catalog, feed, pace
from server.services.context import Context
from server.services.system import SystemIds
from sync.client import ServerClient
from sync.identity import Identity
from sync.protocol import HELLO_PATH, PROTOCOL, PULL_PATH, Hello, HelloAnswer, Pull, PullAnswer, longest_rest_s
from sync.trust import pinned
from tests.bench.measure import percentile

STORE_ID, CAMPAIGN = "bench", "spring"
PROBE_EVERY_S = 0.05
LINES = 8
"""Sessions of the load under way at once, at most."""
RULE: dict[str, Any] = {"id": CAMPAIGN, "benefit": {"type": "amount_off", "amount": "5.00"}, "valid_days": 30}


@dataclass(frozen=True, slots=True)
class Chain:
    """Name the chain: its folder, the tills' keys in order, the server's, headquarters' API key, the feed's end."""

    folder: Path
    tills: list[Ed25519PrivateKey]
    answers: Ed25519PublicKey
    key: str
    head: int


def run(quick: bool) -> dict[str, float]:
    """Return the figures."""
    tills, played_s = (1_000, 5.0) if quick else (10_000, 40.0)
    with tempfile.TemporaryDirectory(prefix="pawtill-bench-") as name:
        chain = found(Path(name) / "server", tills)
        with ServerProcess(chain.folder) as server:
            return play(chain, server, played_s)


def found(folder: Path, tills: int) -> Chain:
    """Found a chain with so many enrolled tills, all of which were heard of just now."""
    private = [Ed25519PrivateKey.generate() for _ in range(tills)]
    services = open_services(folder / "server.db", clock=SystemClock(), ids=SystemIds())
    with closing(services.database):
        headquarters = provision(services, ChainPlan())
        assert headquarters is not None, "the folder was empty"

        def write(conn: Connection, ctx: Context) -> int:
            catalog.set_store(conn, STORE_ID, zone="Asia/Shanghai")
            assert campaigns.create(conn, ctx, RULE)["outcome"] == "ok"
            rows = [{"id": f"T{n}", "store_id": STORE_ID, "last_seen_at": ctx.now} for n in range(tills)]
            conn.execute(insert(till), rows)
            known = {"certificate": "", "enrolled_at": ctx.now}
            devices = [
                {"id": f"K{n}", "till_id": f"T{n}", "public_key": key.public_key().public_bytes_raw(), **known}
                for n, key in enumerate(private)
            ]
            conn.execute(insert(device), devices)
            return feed.head(conn)

        head = services.write(write)
        answers = services.chain_key.answers.public_key()
    return Chain(folder, private, answers, headquarters, head)


def play(chain: Chain, server: ServerProcess, played_s: float) -> dict[str, float]:
    """Publish the change, and let tills come for it at their pace."""
    longest_s = longest_rest_s(pace.rest_s(len(chain.tills)))
    per_s = len(chain.tills) / (longest_s * 2 / 3)
    trust = pinned(server.authority)
    with httpx.Client(base_url=server.url, verify=trust, headers={"Authorization": f"Bearer {chain.key}"}) as office:
        quiet = _probe(office, played_s / 4)
        office.patch(f"/v1/campaigns/{CAMPAIGN}", json={"valid_days": 31}).raise_for_status()
        asked: list[float] = []
        prober = threading.Thread(target=lambda: asked.extend(_probe(office, played_s)))
        cpu_s, began_s = _cpu_s(server.pid), time.perf_counter()
        prober.start()
        sessions = _sessions(chain, server, per_s=per_s, played_s=played_s)
        prober.join()
        took_s, cpu_s = time.perf_counter() - began_s, _cpu_s(server.pid) - cpu_s
    # What headquarters' own questions cost is in it: at twenty a second it is little.
    return {
        "tills": len(chain.tills),
        "sessions_per_s": sessions / took_s,
        "planned_per_s": per_s,
        "session_cpu_ms": cpu_s / sessions * 1000,
        "processors": cpu_s / sessions * per_s,
        "told_s": longest_s,
        "asked_p99_ms": percentile(asked, 99),
        "over_quiet": percentile(asked, 99) / percentile(quiet, 99),
    }


def _sessions(chain: Chain, server: ServerProcess, *, per_s: float, played_s: float) -> int:
    """Run sessions in their order of time, and return how many there were; each brings the change."""
    chance, trust = random.Random(3), pinned(server.authority)
    order = chance.sample(range(len(chain.tills)), len(chain.tills))

    def session(number: int) -> None:
        identity = Identity(f"K{number}", chain.tills[number], chain.answers, SystemClock())
        with ServerClient(server.url, identity, trust=trust) as client:
            client.exchange(HELLO_PATH, _hello(f"T{number}"), HelloAnswer)
            asked = Pull(proto=PROTOCOL, till=f"T{number}", cursor=chain.head)
            pulled = client.exchange(PULL_PATH, asked, PullAnswer)
        assert CAMPAIGN in [record.key for record in pulled.records], "the change is what it came for"

    begun = []
    with ThreadPoolExecutor(LINES) as pool:
        started_s = time.perf_counter()
        due_s = 0.0
        for number in order:
            due_s += chance.expovariate(per_s)
            if due_s > played_s:
                break
            time.sleep(max(0.0, started_s + due_s - time.perf_counter()))
            begun.append(pool.submit(session, number))
        for each in begun:
            each.result()
    return len(begun)


def _hello(till_id: str) -> Hello:
    return Hello(
        proto=PROTOCOL,
        till=till_id,
        epoch=1,
        last=(0, ""),
        seen=(0, ""),
        incarnation=0,
        schema_range=(1, 1),
        app="bench",
        boot=f"boot-{till_id}",
        wall_ms=round(datetime.now(UTC).timestamp() * 1000),
        unsynced=0,
        oldest_unsynced_s=0,
        db="ok",
    )


def _probe(office: httpx.Client, for_s: float) -> list[float]:
    """Ask for a campaign again and again, and return what each answer took (ms)."""
    took: list[float] = []
    until_s = time.perf_counter() + for_s
    while (began_s := time.perf_counter()) < until_s:
        office.get(f"/v1/campaigns/{CAMPAIGN}").raise_for_status()
        took.append((time.perf_counter() - began_s) * 1000)
        time.sleep(PROBE_EVERY_S)
    return took


def _cpu_s(pid: int) -> float:
    """Return what a process has had of the processor (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

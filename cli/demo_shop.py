"""Run the demo's shop: a fresh server as a process of its own, a cable to it, and everything gone at the end."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from app.domain.refusals import Refusal
from cli.cable import Cable
from cli.demo_chain import DemoChain, DemoCoupon, DemoIds, demo_data, demo_products, load_demo_chain
from cli.server_process import ServerProcess
from server.opening import open_services
from server.services.system import SystemClock
from server.settings import Settings
from sync.client import ServerClient
from sync.enrolling import enrol, new_attempt
from sync.enrolment import read_code
from sync.trust import pinned, unknown_yet
from ui.demo.things import Group, Thing
from ui.running_till import Enrolment, Joined
from ui.words import Name

TILL_ID = "R1"
ENROL_S = 30.0
_GOODS = (
    "FD-D12-30",
    "FD-C11-15",
    "CN-11-85",
    "TR-11",
    "TY-403",
    "CR-101",
    "LT-21",
    "BULK-JERKY",
    "WASH-M",
    "DEEP-WASH",
)


@dataclass(frozen=True, slots=True)
class Shop:
    """Hold the shop: the server past the cable at `url`, whose certificate `trust` believes, the chain, its till."""

    url: str
    settings: Settings
    chain: DemoChain
    cable: Cable
    trust: ssl.SSLContext
    enrolment: Enrolment


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    """Set the demo chain up in `folder` and run its server until the block ends; raises ServerDidNotStart."""
    # Every setting is said: the environment's are a real server's, and the demo must not come near its data.
    settings = Settings(
        data_dir=folder / "server",
        host="127.0.0.1",
        port=0,
        tls=True,
        tls_names="",
        database_url="",
        workers=1,
        redis_url=SecretStr(""),
        redis_prefix="",
        metrics_key=SecretStr(""),
        alert_url="",
        alert_secret=SecretStr(""),
        alert_stock_percent=10,
        alert_hot_per_s=500,
        log_level="info",
    )
    services = open_services(settings.database, folder=settings.folder, clock=SystemClock(), ids=DemoIds())
    try:
        chain = load_demo_chain(services)
    finally:
        services.database.close()
    with ServerProcess(settings.data_dir) as server:
        address = urlsplit(server.url)
        assert address.hostname is not None and address.port is not None, "the server says where it is"
        with Cable((address.hostname, address.port)) as cable:
            yield Shop(
                url=server.url,
                settings=settings,
                chain=chain,
                cable=cable,
                trust=pinned(server.authority),
                enrolment=_enrol(server, chain, cable),
            )


def _enrol(server: ServerProcess, chain: DemoChain, cable: Cable) -> Enrolment:
    """Enrol the demo's till as a shop's: by a code of headquarters, through the cable, believing nobody before."""
    store_id = next(till.store_id for till in chain.tills if till.id == TILL_ID)
    with ServerClient(server.url, chain.headquarters_key, trust=pinned(server.authority)) as office:
        told = office.post(f"/v1/tills/{TILL_ID}/enrolment-codes", {"store": store_id})
    assert not isinstance(told, Refusal), "the demo's till is there, and headquarters may"
    code = read_code(told["code"])
    assert code is not None, "the server wrote it"
    url = f"https://127.0.0.1:{cable.port}"
    with ServerClient(url, None, trust=unknown_yet(), answer_timeout_s=ENROL_S) as client:
        enrolled = enrol(client, TILL_ID, code=code, attempt=new_attempt())
    assert not isinstance(enrolled, Refusal), "the code was made just now"
    return Enrolment(Joined(url, TILL_ID, enrolled.store_id, enrolled.authority), enrolled.secrets)


def things_to_scan(chain: DemoChain) -> tuple[Group, ...]:
    """Lay out what the demo's panel offers, in the order of a first sale: goods, then coupons."""
    data = demo_data()
    goods = {product.sku: product for product in demo_products()}
    members = [Thing(Name(m["label"], m["label"]), m["id"]) for m in data["member"]]
    cards = [
        Thing(
            Name(f"{goods[c['service']].name} {c['uses']} 次卡", f"{c['uses']} x {goods[c['service']].name_en}"),
            c["id"],
        )
        for c in data["punch_card"]
    ]
    coupons = [Thing(_of(coupon), coupon.code) for coupon in chain.coupons]
    misread = chain.coupons[0].code
    misread = misread[:-1] + str((int(misread[-1]) + 1) % 10)
    return (
        Group("demo.goods", tuple(Thing(Name(goods[sku].name, goods[sku].name_en), sku) for sku in _GOODS)),
        Group("demo.coupons", tuple(coupons)),
        Group("demo.cards", tuple(cards)),
        Group("demo.members", tuple(members)),
        Group("demo.odd", (Thing(Name("读错一位的券码", "A code with a digit misread"), misread),)),
    )


def _of(coupon: DemoCoupon) -> Name:
    """Call a coupon by its campaign, and say whose it is."""
    return Name(f"{coupon.member_id} {coupon.name}", f"{coupon.member_id} {coupon.name_en}")

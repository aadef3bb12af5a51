"""Run the demo: a shop of its own with a window to try, or the whole story offscreen."""

import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from app.services.ports import Probe
from cli.audit_command import run_audit
from cli.demo_shop import Shop, open_shop, things_to_scan
from cli.exits import Exit, complain
from cli.screen import why_no_screen
from cli.server_process import ServerDidNotStart
from cli.till_folder import TILL_FILE
from sync.client import ServerClient
from ui.counter.terminal import CashierTerminal
from ui.demo.driver import NotShown
from ui.demo.head_office import Claimed, HeadOfficeEyes
from ui.demo.run import DemoTill
from ui.demo.stage import NotTrue, Stage
from ui.demo.story import play
from ui.demo.things import DemoCounter
from ui.running_till import RunningTill, open_running_till


def run_demo(*, headless: bool, shots: Path | None, language: str) -> int:
    """Run the demo and return the exit code; its data is in a folder that is gone when it ends.

    `shots` is where the story's pictures go, None = a new folder, which stays and is named.
    """
    if not headless and (reason := why_no_screen()):
        complain(f"{reason}. To see the demo play by itself, run: python3 run.py demo --headless")
        return Exit.NO_SCREEN
    # Told to end while no window listens yet, or while the story plays, the demo still takes everything down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.TOLD_TO_END))
    with tempfile.TemporaryDirectory(prefix="pawtill-demo-") as name, ExitStack() as stack:
        try:
            shop = stack.enter_context(open_shop(Path(name)))
        except ServerDidNotStart as error:
            complain(f"the demo's server did not start: {error}")
            return Exit.UNAVAILABLE
        pictures = shots or (Path(tempfile.mkdtemp(prefix="pawtill-shots-")) if headless else Path(name))
        pictures.mkdir(parents=True, exist_ok=True)
        till = _open(shop, Path(name), language=language, shots=pictures)
        stack.callback(till.close)
        if headless:
            return _play(shop, till, pictures)
        ready = f"The demo's server is on {shop.url} (its API: {shop.url}/docs). Close the window to end everything."
        return till.run(ready=lambda: print(ready, flush=True))


def _open(shop: Shop, folder: Path, *, language: str, shots: Path) -> DemoTill:
    def open_till(terminal: CashierTerminal, probe: Probe) -> RunningTill:
        return open_running_till(folder / TILL_FILE, shop.enrolment, payments=terminal, probe=probe)

    def lay_out(running: RunningTill) -> DemoCounter:
        return DemoCounter(things_to_scan(shop.chain), shop.cable, running.engine.wake)

    return DemoTill(open_till, lay_out, language=language, shots=shots)


def _play(shop: Shop, till: DemoTill, shots: Path) -> int:
    """Play the story, then let the audit speak."""
    coupons = [Claimed(c.id, c.code, c.member_id, c.campaign_id) for c in shop.chain.coupons]
    with (
        ServerClient(shop.url, shop.chain.headquarters_key, trust=shop.trust) as office,
        ServerClient(shop.url, shop.chain.app_key, trust=shop.trust) as app,
    ):
        stage = Stage(till, HeadOfficeEyes(office, app), shop.cable, coupons, lambda text: print(text, flush=True))
        try:
            play(stage)
            failed = False
        except (NotTrue, NotShown) as error:
            print(f"  ✗ {error}", flush=True)
            failed = True
    print("\n11. The audit of the server's database")
    verdict = run_audit(shop.settings, everything=False)
    print(f"\nScreenshots: {shots}")
    print("The story did not come out as it should." if failed else "Everything came out as it should.")
    return Exit.FOUND_SOMETHING if failed or verdict != Exit.OK else Exit.OK

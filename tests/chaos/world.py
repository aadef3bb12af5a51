"""Draw the chain of a run, with enough of everything that a long one still sells, and say where its files lie."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from server.scenario.tables import WorldTable
from server.simulation import shop

PLENTY = {"per_member": 2_000, "stock": 3_000, "budget": "20000.00"}
USES = 400


@dataclass(frozen=True, slots=True)
class Ground:
    """Hold the seed of a run and its folder, which is all of the evidence.

    `acts` is all that is done at tills, () = of every kind.
    """

    folder: Path
    seed: int
    tills: int
    pace_s: float
    """Between two things that happen at a till, on average."""
    acts: tuple[str, ...] = ()

    @property
    def journals(self) -> Path:
        """Return where everybody writes down what happens."""
        return self.folder / "journals"

    def till_folder(self, till_id: str) -> Path:
        """Return a till's folder."""
        return self.folder / till_id

    def table(self) -> WorldTable:
        """Return the chain; whoever asks draws the same."""
        table = shop.draw(random.Random(self.seed), f"chaos {self.seed}", tills=self.tills)
        coupons = [each for each in table.campaign if each.rule.get("kind") != "automatic"]
        campaigns = []
        for each in table.campaign:
            changed = {name: some for name, some in PLENTY.items() if name in each.model_fields_set}
            if each in coupons[::2]:
                # Half of them are claimed through Redis, and are never out of stock by themselves.
                changed |= {"arbiter": "redis", "stock": PLENTY["stock"], "per_member": PLENTY["per_member"]}
            campaigns.append(each.model_copy(update=changed))
        cards = [each.model_copy(update={"uses": USES}) for each in table.punch_card]
        chain = table.chain.model_copy(update={"lock_timeout": timedelta(seconds=30)})
        return table.model_copy(update={"campaign": campaigns, "punch_card": cards, "chain": chain})

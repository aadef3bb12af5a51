"""Write how scenarios went: a line each, the tally, and with `--explain` every step."""

from collections.abc import Sequence
from datetime import tzinfo

from app.domain.money import Currency
from server.scenario.comparing import named, show
from server.scenario.playing import Played, PlayedStep


def line(played: Played) -> str:
    """Return one line: passed or FAILED, the file, its title, and the first thing that went wrong."""
    words = f"{played.path}: {played.title}" if played.title else played.path
    if not played.problems:
        return f"passed  {words}\n"
    more = len(played.problems) - 1
    return f"FAILED  {words}: {played.problems[0]}" + (f" (and {more} more)\n" if more else "\n")


def tally(played: Sequence[Played]) -> str:
    """Return the last line."""
    failed = sum(bool(done.problems) for done in played)
    return f"{len(played) - failed} passed, {failed} failed\n"


def explained(played: Played) -> str:
    """Return every step: when, what was done, what was expected and what came."""
    if not played.steps or played.currency is None:
        return "".join(f"    {problem}\n" for problem in played.problems)
    return "".join(_step(done, played.currency, played.zone) for done in played.steps)


def _step(done: PlayedStep, currency: Currency, zone: tzinfo) -> str:
    step = done.step
    when = done.at.astimezone(zone).isoformat()
    text = [f"step {step.number}  {when}  {step.verb} {show(named(step.args), currency)}"]
    if step.expect is not None:
        text.append(f"    expected  {show(named(step.expect), currency)}")
    text.append(f"    came      {show(done.came, currency)}")
    text += [f"    WRONG     {problem}" for problem in done.problems]
    return "\n".join(text) + "\n"

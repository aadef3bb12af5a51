"""Show and set for how many hours without a line tills provide: `pawtill offline-hours`."""

from cli.exits import Exit, complain
from cli.office import Office, at_office
from server.settings import Settings


def run_offline_hours(settings: Settings, url: str, *, hours: int | None) -> int:
    """Set the hours where they are given, and print what counts; returns the exit code."""

    def act(office: Office) -> int:
        answer = office.chain() if hours is None else office.set_offline_hours(hours)
        if answer["outcome"] != "ok":
            complain(f"refused: {answer['outcome']}")
            return Exit.CANNOT_START
        print(f"Tills lease what they are likely to need in {answer['offline_hours']} hours without a line.")
        if hours is not None:
            print("Each hears of it with its next sync. What lies at a till, nobody else can have meanwhile.")
        return Exit.OK

    return at_office(settings, url, act)

"""Offer one command, `pawtill`; each subcommand imports what it needs when it runs, so that `--help` is instant."""

import os
from pathlib import Path
from typing import Annotated

import typer

from cli.findings_group import findings
from cli.options import (
    DEFAULT_URL,
    By,
    DatabaseUrl,
    DataDir,
    Language,
    LanguageOption,
    OfficeUrl,
    Reason,
    TillId,
    a_person,
    an_id,
)

app = typer.Typer(
    name="pawtill",
    help="A till and store manager whose coupons, punch cards and stored value can be trusted, also offline.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def server(
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default 127.0.0.1.")] = None,
    *,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on, 0 = any free one; default 8420.")
    ] = None,
    database_url: DatabaseUrl = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Processes that share the port; more than 1 need PostgreSQL.")
    ] = None,
) -> None:
    """Run headquarters' server. The first run makes an empty chain and a headquarters key in the data folder.

    Settings that are not given here come from the environment: PAWTILL_HOST, PAWTILL_PORT, PAWTILL_DATA_DIR, ...
    """
    from cli.settings import server_settings

    chosen = server_settings(data_dir=data_dir, host=host, port=port, database_url=database_url, workers=workers)
    from cli.server_command import run_server

    raise typer.Exit(run_server(chosen))


@app.command()
def till(
    *,
    data_dir: DataDir = None,
    language: LanguageOption = Language.ZH,
    operator: Annotated[str, typer.Option(help="Name on receipts and in the ledger.")] = "cashier",
    second_copy: Annotated[
        Path | None, typer.Option(help="A folder on another disk for a second copy of the ledger; remembered.")
    ] = None,
) -> None:
    """Open the till's window."""
    from cli.till_command import run_till

    raise typer.Exit(run_till(data_dir, language=language, operator=operator, second_copy=second_copy))


@app.command()
def recover(
    *,
    copy: Annotated[
        Path | None, typer.Option(help="The folder of the second copy; default: the one remembered.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Recover a till's damaged or lost ledger from what is left of it, its second copy, and the server."""
    from cli.recover_command import run_recover

    raise typer.Exit(run_recover(data_dir, copy=copy))


@app.command("close-day")
def close_day(data_dir: DataDir = None) -> None:
    """Give this till's rights back for the night; its window must be closed. It asks for new ones tomorrow."""
    from cli.close_day_command import run_close_day

    raise typer.Exit(run_close_day(data_dir))


Confirm = Annotated[
    str | None,
    typer.Option(help="The till's id again, where nobody is to be asked; what it has is shown all the same."),
]


@app.command()
def strand(
    till_id: TillId,
    *,
    reason: Reason,
    confirm: Confirm = None,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Declare a till lost: its rights are set aside for what it may still tell. Shows them, and asks first."""
    raise typer.Exit(_decide("strand", till_id, reason, confirm=confirm, url=url, where=(data_dir, database_url)))


@app.command()
def reclaim(
    till_id: TillId,
    *,
    reason: Reason,
    confirm: Confirm = None,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Take the rights of a lost till back at once, at a risk. Shows them, and asks first."""
    raise typer.Exit(_decide("reclaim", till_id, reason, confirm=confirm, url=url, where=(data_dir, database_url)))


def _decide(
    what: str, till_id: str, reason: str, *, confirm: str | None, url: str, where: tuple[Path | None, str | None]
) -> int:
    from cli.lost_till_commands import decide_lost_till
    from cli.settings import server_settings

    settings = server_settings(data_dir=where[0], database_url=where[1])
    return decide_lost_till(settings, url, what=what, till_id=till_id, reason=reason, confirm=confirm, ask=_ask_till)


@app.command()
def found(
    till_id: TillId,
    *,
    reason: Reason,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Lend to a till again that had been declared lost."""
    from cli.lost_till_commands import welcome_till
    from cli.settings import server_settings

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(welcome_till(settings, url, till_id=till_id, reason=reason))


@app.command()
def suspend(
    till_id: TillId,
    *,
    reason: Reason,
    confirm: Confirm = None,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Let a till speak no more until it is resumed. Shows what it has, and asks first."""
    raise typer.Exit(_shut("suspend", till_id, reason, confirm=confirm, url=url, where=(data_dir, database_url)))


@app.command()
def resume(
    till_id: TillId,
    *,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Let a suspended till speak again."""
    from cli.settings import server_settings
    from cli.till_access_commands import resume_till

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(resume_till(settings, url, till_id=till_id))


@app.command()
def revoke(
    till_id: TillId,
    *,
    reason: Reason,
    confirm: Confirm = None,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Take a till out of service until it enrols anew. Shows what it has, and asks first."""
    raise typer.Exit(_shut("revoke", till_id, reason, confirm=confirm, url=url, where=(data_dir, database_url)))


def _shut(
    what: str, till_id: str, reason: str, *, confirm: str | None, url: str, where: tuple[Path | None, str | None]
) -> int:
    from cli.settings import server_settings
    from cli.till_access_commands import shut_till

    settings = server_settings(data_dir=where[0], database_url=where[1])
    return shut_till(settings, url, what=what, till_id=till_id, reason=reason, confirm=confirm, ask=_ask_till)


def _ask_till() -> str:
    return str(typer.prompt("Type the till's id to confirm", default="", show_default=False))


@app.command()
def tills(
    *,
    after: Annotated[str, typer.Option(help="Begin behind the till of this id.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Tills to show at most.")] = 100,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """List tills: state, last seen, ledger here and announced, clock, and what each may spend without asking."""
    from cli.settings import server_settings
    from cli.till_access_commands import list_tills

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(list_tills(settings, url, after=after, limit=limit))


@app.command("offline-hours")
def offline_hours(
    hours: Annotated[int | None, typer.Argument(min=1, max=168, help="From now on; none = show what counts.")] = None,
    *,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Show or set for how many hours without a line tills provide."""
    from cli.offline_hours_command import run_offline_hours
    from cli.settings import server_settings

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(run_offline_hours(settings, url, hours=hours))


@app.command()
def risk(
    *,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Show what tills may lose by coupons that they take without a right: granted, lost, left (the worst case)."""
    from cli.risk_commands import show_risk
    from cli.settings import server_settings

    raise typer.Exit(show_risk(server_settings(data_dir=data_dir, database_url=database_url), url))


@app.command("risk-budget")
def risk_budget(
    till_id: TillId,
    amount: Annotated[str, typer.Argument(help="What may be lost there at most from now on; 0 = no risk is taken.")],
    *,
    by: By,
    reason: Reason,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Set the risk budget of a till; the same again fills up what was lost meanwhile."""
    from cli.risk_commands import set_risk
    from cli.settings import server_settings

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(set_risk(settings, url, till_id=till_id, amount=amount, by=by, reason=reason))


StaffId = Annotated[str, typer.Argument(help="Id of the person, for example meg.", callback=an_id)]


@app.command()
def manager(
    staff_id: StaffId,
    *,
    name: Annotated[str, typer.Option(help="The name that tills show.", callback=a_person)],
    store: Annotated[
        str | None, typer.Option(help="Id of the store at whose tills; default: every store.", callback=an_id)
    ] = None,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Let somebody approve at tills; asks for the PIN twice, 6 to 12 digits, and keeps none."""
    from cli.manager_commands import appoint
    from cli.settings import server_settings

    pin = str(typer.prompt("PIN", hide_input=True, confirmation_prompt=True))
    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(appoint(settings, url, staff_id=staff_id, name=name, store_id=store, pin=pin))


@app.command("manager-left")
def manager_left(
    staff_id: StaffId,
    *,
    reason: Reason,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Let somebody approve no more; the tills hear of it with their next sync."""
    from cli.manager_commands import dismiss
    from cli.settings import server_settings

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(dismiss(settings, url, staff_id=staff_id, reason=reason))


@app.command("enrolment-code")
def enrolment_code(
    till_id: TillId,
    *,
    store: Annotated[str, typer.Option(help="Id of its store; made if it is new.", callback=an_id)],
    data_dir: DataDir = None,
    url: Annotated[str, typer.Option(help="Where the till reaches the server.")] = DEFAULT_URL,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a one-time code by which a till enrols: 15 minutes, one use. The server may be running or not."""
    from cli.enrolment_code_command import print_enrolment_code
    from cli.settings import server_settings

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(print_enrolment_code(settings, till_id=till_id, store=store, url=url))


@app.command()
def enrol(
    till_id: TillId,
    *,
    code: Annotated[str, typer.Option(help="The one-time code from `pawtill enrolment-code`.")],
    server: Annotated[str, typer.Option(help="Where the server is.")] = DEFAULT_URL,
    data_dir: DataDir = None,
) -> None:
    """Enrol this till: it makes a key of its own, and the server knows it from then on."""
    from cli.enrol_command import enrol_till

    raise typer.Exit(enrol_till(data_dir, till_id=till_id, server=server, code=code))


@app.command()
def restored(
    *,
    reason: Reason,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Say that the server's database was put back from a backup, before the server starts on it.

    Until every till has told again what the backup lacks, the server takes entries and gives nothing out.
    """
    from cli.restored_command import run_restored
    from cli.settings import server_settings

    raise typer.Exit(run_restored(server_settings(data_dir=data_dir, database_url=database_url), reason=reason))


@app.command()
def demo(
    headless: Annotated[bool, typer.Option("--headless", help="Play the whole story offscreen and print it.")] = False,
    shots: Annotated[Path | None, typer.Option(help="Folder for the screenshots of --headless.")] = None,
    language: LanguageOption = Language.ZH,
) -> None:
    """Start a demo chain with a server and a till, signed in as a cashier with things to scan."""
    if headless:
        from cli.screen import no_screen_needed

        os.environ["QT_QPA_PLATFORM"] = no_screen_needed()
    from cli.demo import run_demo

    raise typer.Exit(run_demo(headless=headless, shots=shots, language=language))


@app.command()
def scenario(
    paths: Annotated[list[Path], typer.Argument(help="Scenario files or folders of them.")],
    explain: Annotated[bool, typer.Option("--explain", help="Print every step: what was expected, what came.")] = False,
) -> None:
    """Run scenario files on the real parts, one line each; exit 1 if any failed."""
    from server import logs
    from server.scenario.run import run_paths

    # The parts are killed on purpose here; what they say about it is nothing to read.
    logs.configure("critical")

    raise typer.Exit(run_paths(paths, explain=explain))


@app.command()
def simulate(
    seeds: Annotated[str, typer.Option(help="A:B, from seed A up to B and without it.")] = "0:20",
    *,
    operations: Annotated[int, typer.Option(min=1, max=100_000, help="Business actions of each seed.")] = 300,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that share the seeds.")] = 1,
    only: Annotated[str, typer.Option(help="Numbers of the events to play, as a failing seed names them.")] = "",
    disasters: Annotated[
        bool | None, typer.Option(help="Disks and servers set back, rights reclaimed; default: in three seeds of ten.")
    ] = None,
    small: Annotated[bool, typer.Option(help="Make a failing seed small before it is told.")] = True,
) -> None:
    """Simulate whole chains on the real code under faults, each from its seed; exit 1 if a promise was broken."""
    from cli.simulate_command import run_simulation

    raise typer.Exit(
        run_simulation(seeds, operations=operations, workers=workers, only=only, disasters=disasters, small=small)
    )


@app.command()
def audit(
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    everything: Annotated[bool, typer.Option("--all", help="Print every equation, however many.")] = False,
) -> None:
    """Prove the invariants from the server's database alone; exit 1 on any violation."""
    from cli.audit_command import run_audit
    from cli.settings import server_settings

    raise typer.Exit(run_audit(server_settings(data_dir=data_dir, database_url=database_url), everything=everything))


@app.command()
def doctor(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="A data folder to look at; default: the user's till and server.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help=f"Server to look for; default: the till's own, or {DEFAULT_URL}.")
    ] = None,
) -> None:
    """Tell what is installed, missing, reachable, and how full the disk is. Shows no secrets."""
    from cli.doctor.visit import run_doctor

    raise typer.Exit(run_doctor(data_dir, url=url))


app.add_typer(findings, name="findings")


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()

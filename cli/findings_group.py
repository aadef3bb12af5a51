"""Offer `pawtill findings`; as in `main.py`, each command imports what it needs when it runs."""

from enum import StrEnum
from typing import Annotated

import typer

from cli.options import By, DatabaseUrl, DataDir, Language, OfficeUrl, Reason

findings = typer.Typer(help="What a person must look at: list, show, decide, close, judge.", no_args_is_help=True)


class FindingState(StrEnum):
    """List the states of a finding."""

    OPEN = "OPEN"
    DECIDED = "DECIDED"
    CLOSED = "CLOSED"


class Decision(StrEnum):
    """List what may be decided about a finding."""

    REMEDY = "remedy"
    ACCEPT = "accept"
    OTHER = "other"


FindingId = Annotated[int, typer.Argument(min=1, help="Number of the finding, as `list` shows it.")]
WordsIn = Annotated[Language, typer.Option("--language", help="Language of what is printed.")]


@findings.command("list")
def list_findings(
    *,
    state: Annotated[FindingState | None, typer.Option(help="Only those in this state.")] = None,
    language: WordsIn = Language.ZH,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """List the newest findings, one line each."""
    from cli.findings_command import run_list
    from cli.settings import server_settings

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(run_list(settings, url, language=language, state=state))


@findings.command("show")
def show_finding(
    finding_id: FindingId,
    *,
    language: WordsIn = Language.ZH,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Show a finding: how much and whose loss, what is proposed, the evidence of both sides, who decided what."""
    from cli.findings_command import run_show
    from cli.settings import server_settings

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(run_show(settings, url, finding_id, language=language))


@findings.command("decide")
def decide_finding(
    finding_id: FindingId,
    decision: Annotated[Decision, typer.Argument(help="Do what is proposed, leave it, or what the reason says.")],
    *,
    by: By,
    reason: Reason,
    language: WordsIn = Language.ZH,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Decide about a finding; the same decision again changes nothing."""
    from cli.findings_command import run_decide
    from cli.settings import server_settings
    from server.services.findings import Word

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(run_decide(settings, url, finding_id, language=language, word=Word(by, reason, decision)))


@findings.command("close")
def close_finding(
    finding_id: FindingId,
    *,
    by: By,
    reason: Reason,
    language: WordsIn = Language.ZH,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Close a finding that was decided: it is done."""
    from cli.findings_command import run_close
    from cli.settings import server_settings
    from server.services.findings import Word

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(run_close(settings, url, finding_id, language=language, word=Word(by, reason)))


@findings.command("judge")
def judge_again(
    finding_id: FindingId,
    *,
    by: By,
    reason: Reason,
    language: WordsIn = Language.ZH,
    data_dir: DataDir = None,
    url: OfficeUrl = "",
    database_url: DatabaseUrl = None,
) -> None:
    """Judge the entry of a finding in quarantine again, as a server does by itself every hour until it is decided."""
    from cli.findings_command import run_judge
    from cli.settings import server_settings
    from server.services.findings import Word

    settings = server_settings(data_dir=data_dir, database_url=database_url)
    raise typer.Exit(run_judge(settings, url, finding_id, language=language, word=Word(by, reason)))

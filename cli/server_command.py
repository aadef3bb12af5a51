"""Run headquarters' server: `pawtill server`."""

from cli.data_trouble import explain
from cli.exits import NEW_CHAIN
from server.main import serve
from server.opening import HEADQUARTERS_KEY_FILE
from server.settings import Settings


def run_server(settings: Settings) -> int:
    """Run the server until it is told to stop, and return the exit code.

    One line on stdout says that it is ready and where; the first run tells as well where headquarters' key is.
    """
    try:
        folder = settings.folder
    except ValueError as error:
        return explain(error)
    key_file = folder / HEADQUARTERS_KEY_FILE
    first_run = not key_file.exists()

    def announce(url: str) -> None:
        if first_run and key_file.exists():
            print(NEW_CHAIN.format(key_file))
        print(f"Pawtill server ready on {url} (its API: {url}/docs), data in {folder}", flush=True)

    return serve(settings, announce=announce)

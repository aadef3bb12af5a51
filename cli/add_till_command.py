"""Give a till its pass: `pawtill add-till`."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection

from app.domain.refusals import Refusal
from cli.chain_door import NoChain, at_chain, is_address, make_store
from cli.exits import Exit, complain
from server.private_file import write_private
from server.services import catalog, keys
from server.services.context import Context
from server.services.services import Services
from server.settings import Settings
from sync.client import Json, ServerClient


def write_till_pass(settings: Settings, *, till_id: str, store: str, url: str, out: Path) -> int:
    """Set a till up and write the pass that joins it; keys that it had before are worthless from then on."""
    if not is_address(url):
        return Exit.CANNOT_START

    def here(services: Services) -> dict[str, Any]:
        def make(conn: Connection, ctx: Context) -> keys.NewKey | Refusal:
            make_store(conn, ctx, store)
            return catalog.set_till(conn, ctx, till_id, store_id=store)

        made = services.write(make)
        assert isinstance(made, keys.NewKey), "the store was made in the same transaction"
        return {"key": made.token, "code_key": services.code_key.hex(), "authority": services.authority}

    def there(client: ServerClient) -> Json | Refusal:
        return client.put(f"/v1/tills/{quote(till_id, safe='')}", {"store": store})

    try:
        made = at_chain(settings, url, store=store, here=here, there=there)
        told = {name: made[name] for name in ("key", "code_key", "authority")}
        content = {"url": url, "till": till_id, "store": store, **told}
        write_private(out, (json.dumps(content, indent=2) + "\n").encode())
    except NoChain as error:
        return error.code
    except OSError as error:
        complain(str(error))
        return Exit.CANNOT_START
    print(
        f"Pass of till {till_id} in store {store}: {out}. Carry it to the till and join: pawtill till --join {out.name}"
    )
    return Exit.OK

"""Give a till a one-time code to enrol with: `pawtill enrolment-code`."""

from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection

from app.domain.refusals import Refusal
from cli.chain_door import NoChain, at_chain, is_address, make_store
from cli.exits import Exit, complain
from server.services import enrolment
from server.services.context import Context
from server.services.services import Services
from server.settings import Settings
from sync.client import Json, ServerClient
from sync.enrolment import show_code


def print_enrolment_code(settings: Settings, *, till_id: str, store: str, url: str) -> int:
    """Make a code and print it with what to type at the till."""
    if not is_address(url):
        return Exit.CANNOT_START

    def here(services: Services) -> dict[str, Any]:
        def make(conn: Connection, ctx: Context) -> enrolment.NewCode | Refusal:
            make_store(conn, ctx, store)
            return enrolment.make_code(conn, ctx, till_id, store_id=store, chain_key=services.chain_key)

        made = services.write(make)
        if isinstance(made, Refusal):
            complain(f"till {till_id} stands in store {made.facts['store']}: name that store, or another till")
            raise NoChain(Exit.FOUND_SOMETHING)
        return {"code": show_code(made.code)}

    def there(client: ServerClient) -> Json | Refusal:
        return client.post(f"/v1/tills/{quote(till_id, safe='')}/enrolment-codes", {"store": store})

    try:
        made = at_chain(settings, url, store=store, here=here, there=there)
    except NoChain as error:
        return error.code
    print(
        f"Code of till {till_id} in store {store}, for 15 minutes and one use: {made['code']}\n"
        f"收银台 {till_id}（门店 {store}）的登记码，15 分钟内有效，只能用一次：{made['code']}\n"
        f"At the till, while the server runs: pawtill enrol {till_id} --server {url} --code {made['code']}"
    )
    return Exit.OK

"""Keep the ledger of a schema that is new: `python -m tests.golden`, once, when `SCHEMA` was raised."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from app.domain.ledger import SCHEMA
from tests.golden.kept import file_of, write
from tests.golden.story import tell

if __name__ == "__main__":
    if file_of(SCHEMA).exists():
        sys.exit(f"schema {SCHEMA} is out in the shops and stays as it is: raise SCHEMA in app/domain/ledger.py")
    with TemporaryDirectory() as folder:
        write(SCHEMA, tell(Path(folder)))

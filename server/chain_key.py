"""Keep the chain's signing secret: 32 random bytes in `chain.key`, for the owner alone, and the keys drawn from it.

It signs tills' certificates and the server's answers, certifies the servers for TLS, and one-time codes are drawn from
it, so a database that is stolen without this file opens nothing. The database keeps the public keys: all servers of one
database have the same file, and it belongs into the same backup. (Not drawn from `code.key`: every till has that.)
"""

import hmac
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection, select

from server.code_key import CodeKeyDiffers, CodeKeyMissing
from server.db import schema
from server.db.engine import Database
from server.db.portable import upsert
from server.private_file import write_private

SECRET_BYTES = 32
FILE_NAME = "chain.key"
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True)
class ChainKey:
    """Draw the chain's keys from its secret, one for each purpose (HMAC-SHA256 as in HKDF-Expand, RFC 5869)."""

    secret: bytes = field(repr=False)

    @cached_property
    def certificates(self) -> Ed25519PrivateKey:
        """Return the key that signs the certificates of tills."""
        return Ed25519PrivateKey.from_private_bytes(self._draw(b"certificates"))

    @cached_property
    def answers(self) -> Ed25519PrivateKey:
        """Return the key that signs what the server answers to tills."""
        return Ed25519PrivateKey.from_private_bytes(self._draw(b"answers"))

    @cached_property
    def authority(self) -> ec.EllipticCurvePrivateKey:
        """Return the key of the authority that certifies the chain's servers for TLS (P-256: every browser has it)."""
        # From 128 bits more than the order has, so that no value is likelier than another (FIPS 186-5, A.2.1).
        drawn = self._draw(b"authority 1") + self._draw(b"authority 2")[:16]
        return ec.derive_private_key(int.from_bytes(drawn, "big") % (_P256_ORDER - 1) + 1, ec.SECP256R1())

    @cached_property
    def codes(self) -> bytes:
        """Return the secret from which one-time codes are drawn."""
        return self._draw(b"codes")

    @property
    def public(self) -> bytes:
        """Return the public keys, by which the secret is known: certificates, then answers."""
        return self.certificates.public_key().public_bytes_raw() + self.answers.public_key().public_bytes_raw()

    def _draw(self, purpose: bytes) -> bytes:
        return hmac.digest(self.secret, b"pawtill " + purpose + b"\x01", "sha256")


def load_chain_key(folder: Path, database: Database) -> ChainKey:
    """Return the chain's key, made where the database has none yet.

    Raises CodeKeyMissing where the file of a database that has one is gone or broken, CodeKeyDiffers where it is that
    of another. Of several servers that start at once the first to write decides; the others differ.
    """
    path = folder / FILE_NAME
    kept = database.read(_kept)
    if not path.exists():
        if kept is not None:
            raise CodeKeyMissing(
                f"{path} is missing: copy it from the server that made the database, or from the backup of that"
            )
        write_private(path, secrets.token_bytes(SECRET_BYTES))
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise CodeKeyMissing(f"{path} is broken: put it back from the backup of this database")
    key = ChainKey(secret)
    kept = kept or database.write(lambda conn: _keep(conn, key.public))
    if not hmac.compare_digest(kept, key.public):
        raise CodeKeyDiffers(
            f"{path} is not the key of this database: "
            f"copy {FILE_NAME} from the data folder of the server that made the database"
        )
    return key


def _kept(conn: Connection) -> bytes | None:
    return conn.execute(select(schema.chain_key.c.public)).scalar_one_or_none()


def _keep(conn: Connection, public: bytes) -> bytes:
    conn.execute(upsert(conn, schema.chain_key).values(id=1, public=public).on_conflict_do_nothing())
    kept = _kept(conn)
    assert kept is not None, "it was just written, if it was not there"
    return kept

"""Speak TLS with a certificate that the chain made itself.

The authority's key is drawn from `chain.key`, so every server of the chain has the same authority, and there is no
further secret to keep. It certifies this chain's servers and nothing else; tills trust it and nobody besides, and hold
no server to a name. The names are for browsers and the chain's app. A server's own key is made at each start.
"""

import ipaddress
import os
import socket
import ssl
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from server.chain_key import ChainKey
from server.private_file import write_private
from server.services.services import Services
from server.settings import Settings

AUTHORITY_FILE = "tls-ca.pem"
"""The authority's certificate in the data folder: for browsers and the chain's app, and no secret."""
AUTHORITY_FROM, AUTHORITY_UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2099, 12, 31, tzinfo=UTC)
SERVER_LIFE = timedelta(days=397)
"""Browsers take no longer one; tills do not look at it, since their clocks may be years off."""


def make_authority(chain_key: ChainKey) -> str:
    """Return the certificate (PEM) of the chain's authority; each one made is as good as the other."""
    key = chain_key.authority
    name = _name(key)
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, AUTHORITY_FROM, AUTHORITY_UNTIL)
        .add_extension(constraints, critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )
    return certificate.public_bytes(Encoding.PEM).decode()


def with_authority(services: Services, settings: Settings) -> Services:
    """Let the services tell tills whose certificate to believe, where it is for us to say, and browsers by a file."""
    if not settings.tls:
        return services
    authority = make_authority(services.chain_key)
    write_private(settings.folder / AUTHORITY_FILE, authority.encode())
    return replace(services, authority=authority)


def server_context(chain_key: ChainKey, folder: Path, *, names: Sequence[str], now: datetime) -> ssl.SSLContext:
    """Return what a server speaks TLS with (1.3 alone), by a new certificate for `names`; raises OSError."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certify(key, chain_key.authority, names=names, now=now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Python reads keys from files alone.
    file = folder / f"tls-{os.getpid()}.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(file, private + certificate.public_bytes(Encoding.PEM))
    try:
        context.load_cert_chain(file)
    finally:
        file.unlink()
    return context


def server_names(host: str, more: str) -> tuple[str, ...]:
    """Return the names and addresses that a certificate is for: this machine's, where it listens, and `more` (a, b)."""
    listed = [each.strip() for each in more.split(",")]
    here = ["localhost", "127.0.0.1", "::1", socket.gethostname(), host]
    return tuple(dict.fromkeys(each for each in [*here, *listed] if each and each not in ("0.0.0.0", "::")))  # noqa: S104


def _certify(
    key: ec.EllipticCurvePrivateKey, authority: ec.EllipticCurvePrivateKey, *, names: Sequence[str], now: datetime
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Pawtill server")])
    begin, end = now - timedelta(days=1), now + SERVER_LIFE
    serial = x509.random_serial_number()
    return (
        x509.CertificateBuilder(_name(authority), subject, key.public_key(), serial, begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, SHA256())
    )


def _name(authority: ec.EllipticCurvePrivateKey) -> x509.Name:
    known_by = x509.SubjectKeyIdentifier.from_public_key(authority.public_key()).digest.hex()[:16]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Pawtill chain {known_by}")])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

"""Say whose TLS certificate a till believes, and where both ends speak without any. Imported by both."""

import ipaddress
import ssl
from urllib.parse import urlsplit

_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python does not name."""


def pinned(authority: str) -> ssl.SSLContext:
    """Believe certificates of this authority (PEM) alone, the chain's own; ValueError where it is none.

    It certifies the chain's servers and nothing else, so the name is not looked at: a server may move. Nor is the time:
    a till whose clock is years off has to ask the server what time it is.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    try:
        context.load_verify_locations(cadata=authority)
    except (ssl.SSLError, ValueError):
        raise ValueError("the authority is no certificate") from None
    context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    return context


def unknown_yet() -> ssl.SSLContext:
    """Believe any certificate: for enrolment alone, whose messages prove themselves (`sync/enrolment.py`)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def may_be_plain(url: str) -> bool:
    """Tell whether what is said there may be: over TLS, or without leaving this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Tell whether a name or address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

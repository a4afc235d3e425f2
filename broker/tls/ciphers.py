"""Cipher suites: their names in Java, which are IANA's, and in OpenSSL."""

import re
from typing import Final

TLS_1_3: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""All suites of TLS 1.3 that OpenSSL offers by itself."""

_NAME: Final = re.compile(
    r"TLS_(ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|RSA)_WITH_"
    r"(?:AES_(128|256)_(GCM|CBC)|(CHACHA20_POLY1305))_(SHA(?:256|384)?)"
)
# What the pattern admits, but nobody has defined.
_ABSENT: Final = re.compile(
    r"TLS_(RSA_WITH_CHACHA.*|.*(128_GCM|CHACHA20_POLY1305)_SHA(384)?|.*256_GCM_SHA(256)?"
    r"|.*128_CBC_SHA384|ECDHE.*256_CBC_SHA256|(DHE_)?RSA_WITH_AES_256_CBC_SHA384)"
)


def openssl_name(suite: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2; None if it has none, or should not be used."""
    match = _NAME.fullmatch(suite)
    if match is None or _ABSENT.fullmatch(suite):
        return None
    exchange, bits, mode, chacha, digest = match.groups()
    cipher = "CHACHA20-POLY1305" if chacha else f"AES{bits}{'-GCM' if mode == 'GCM' else ''}"
    parts = [] if exchange == "RSA" else [exchange.replace("_", "-")]
    return "-".join([*parts, cipher, *([] if chacha else [digest])])

"""Names of cipher suites: ours against the list of the `openssl` command."""

import itertools
import subprocess

from odradek.broker.tls.ciphers import openssl_name


def test_every_name_is_openssl_s() -> None:
    command = ["openssl", "ciphers", "-stdname", "ALL:@SECLEVEL=0"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    known = {line.split()[0]: line.split()[2] for line in lines}
    exchanges = ("ECDHE_ECDSA", "ECDHE_RSA", "DHE_RSA", "RSA", "DH_anon", "NULL")
    ciphers = ("AES_128_GCM", "AES_256_GCM", "AES_128_CBC", "AES_256_CBC", "CHACHA20_POLY1305")
    digests = ("SHA", "SHA256", "SHA384")
    for exchange, cipher, digest in itertools.product(exchanges, ciphers, digests):
        suite = f"TLS_{exchange}_WITH_{cipher}_{digest}"
        expected = None if "anon" in exchange else known.get(suite)
        assert openssl_name(suite) == expected, suite
    for weak in ("TLS_RSA_WITH_NULL_SHA", "TLS_RSA_WITH_RC4_128_MD5", "TLS_AES_128_GCM_SHA256", ""):
        assert openssl_name(weak) is None

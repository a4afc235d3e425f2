"""No broker there: each reason has its own sentence, and none takes long."""

import socket
import ssl
from functools import partial
from pathlib import Path

import pytest

from odradek.cli.client_tls import tls_context
from odradek.cli.errors import CommandError
from odradek.cli.reach import check_reachable, parse_bootstrap_servers
from tests.kafka.process import free_port
from tests.support.certificates import Certificates, openssl
from tests.wire.servers import Server

from .conftest import run_odradek
from .listening import Talk, listening

CERTIFICATE = Path(__file__).parent / "localhost.pem"


def web_server(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def greeter(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
    connection.recv(100)


def hangs_up(connection: socket.socket) -> None:
    connection.recv(100)


def silent(connection: socket.socket) -> None:
    connection.settimeout(5)
    while connection.recv(100):
        pass


def broker_behind_tls(connection: socket.socket, store: Path = CERTIFICATE) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(store)
    try:
        with context.wrap_socket(connection, server_side=True) as tls:
            request = tls.recv(100)
            if request:
                tls.sendall(b"\0\0\0\x0a" + request[8:12] + b"\0\0\0\0\0\0")
    except OSError:  # the client spoke plain text
        pass


def reason(address: str, **properties: str) -> str:
    """Why a client with these properties reaches no broker."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    with pytest.raises(CommandError) as refused:
        check_reachable(parse_bootstrap_servers(address), tls=tls_context(named), timeout_s=1)
    return refused.value.message.replace(address, "HERE")


@pytest.mark.parametrize("talk", [web_server, greeter, hangs_up])
def test_what_answers_is_no_broker(talk: Talk) -> None:
    with listening(talk) as address:
        assert reason(address) == "what listens at HERE is no Kafka broker"


@pytest.mark.slow  # it waits for the second that it announces
def test_something_listens_and_is_silent() -> None:
    with listening(silent) as address:
        expected = "no Kafka broker answered at HERE within 1 s, though something listens there"
        assert reason(address) == expected


def test_plain_text_against_tls() -> None:
    with listening(broker_behind_tls) as address:
        expected = "HERE speaks TLS: set security.protocol to SSL or SASL_SSL"
        assert reason(address) == expected


@pytest.mark.slow
def test_a_broker_behind_tls_is_reached_if_its_certificate_is_trusted() -> None:
    secure = {"security.protocol": "SSL"}
    trusting = {**secure, "ssl.ca.location": str(CERTIFICATE)}
    unchecked = {**secure, "enable.ssl.certificate.verification": "false"}
    with listening(broker_behind_tls) as address:
        servers = parse_bootstrap_servers(address)
        check_reachable(servers, tls=tls_context(trusting), timeout_s=10)
        check_reachable(servers, tls=tls_context(unchecked), timeout_s=10)
        assert "is not trusted: self-signed certificate" in reason(address, security_protocol="SSL")


def revoked(certificates: Certificates, directory: Path) -> Path:
    """The list with which the authority revokes the broker's certificate."""
    (directory / "index").touch()
    (directory / "number").write_text("01")
    config, crl = directory / "ca.conf", directory / "crl.pem"
    config.write_text(
        f"[ca]\ndefault_ca=x\n[x]\ndatabase={directory}/index\ncrlnumber={directory}/number\n"
        "default_md=sha256\ndefault_crl_days=3\n"
    )
    key = Path(certificates.trust).with_suffix(".key")
    ca = ("ca", "-config", str(config), "-cert", certificates.trust, "-keyfile", str(key))
    openssl(*ca, "-revoke", str(certificates.broker.certificate))
    openssl(*ca, "-gencrl", "-out", str(crl))
    return crl


@pytest.mark.slow
def test_a_certificate_that_was_revoked(tmp_path: Path, certificates: Certificates) -> None:
    properties = {"security.protocol": "SSL", "ssl.ca.location": certificates.trust}
    with listening(partial(broker_behind_tls, store=certificates.broker.store)) as address:
        servers = parse_bootstrap_servers(address)
        check_reachable(servers, tls=tls_context(properties), timeout_s=10)
        properties["ssl.crl.location"] = str(revoked(certificates, tmp_path))
        with pytest.raises(CommandError, match="is not trusted: certificate revoked"):
            check_reachable(servers, tls=tls_context(properties), timeout_s=10)


@pytest.mark.wire
def test_tls_against_plain_text(cluster: Server) -> None:
    expected = "HERE speaks plain text: set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    assert reason(cluster.bootstrap_servers, security_protocol="SSL") == expected


def test_one_of_several_addresses_is_enough_and_all_are_told_of() -> None:
    nobody, nowhere = f"127.0.0.1:{free_port()}", "no-such-host.invalid:9092"
    with listening(broker_behind_tls) as address:
        servers = parse_bootstrap_servers(f"{nobody},{nowhere},{address}")
        tls = tls_context({"security.protocol": "SSL", "ssl.ca.location": str(CERTIFICATE)})
        check_reachable(servers, tls=tls, timeout_s=30)
    told = reason(f"{nobody},{nowhere}")
    assert f"{nobody} refuses the connection" in told
    assert "the name 'no-such-host.invalid' does not resolve" in told


@pytest.mark.parametrize(
    "text",
    [
        *("", "localhost", "localhost:", ":9092", "h:x", "h:٣", "h:0", "h:65536", "h:1,", "h:-1"),
        *("http://h:1", "SSL://h:1", "::1:9092"),
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(CommandError, match="bootstrap server"):
        parse_bootstrap_servers(text)


def test_addresses() -> None:
    found = parse_bootstrap_servers("one:1, two:2,[::1]:9092")
    assert found == [("one", 1), ("two", 2), ("::1", 9092)]
    assert reason(".:1") == "the name '.' does not resolve"


@pytest.mark.wire
@pytest.mark.parametrize("command", [["topics", "list"], ["produce", "t"], ["consume", "t"]])
def test_all_commands_say_it(command: list[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    done = run_odradek(*command, "-b", address, stdin=b"x")
    assert (done.returncode, done.stdout) == (1, b"")
    expected = f"Error: {address} refuses the connection: nothing listens there\n"
    assert done.stderr.decode() == expected

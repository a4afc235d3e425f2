"""Credentials, ACLs and TLS towards a real ZooKeeper; and the settings that ask for them."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoChildrenForEphemeralsError

from odradek.broker.config import Config, ConfigError
from odradek.broker.coordination.interface import (
    CoordinationLost,
    Create,
    NotAllowed,
    StoreError,
)
from odradek.broker.coordination.zookeeper import (
    ZooKeeperAccess,
    ZooKeeperStore,
    zookeeper_access,
    zookeeper_store,
)
from odradek.broker.coordination.zookeeper_address import parse_address
from odradek.broker.coordination.zookeeper_handler import LoopHandler
from odradek.broker.coordination.zookeeper_tree import _with_tls, zookeeper_tree
from tests.broker.administration.test_scram_users import add as add_scram_user
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.coordination.zookeepers import new_chroot
from tests.broker.running import running
from tests.kafka.process import free_port
from tests.kafka.zookeeper import ZooKeeper, secure_settings, user_option, zookeeper

TIMEOUT_MS = 6_000


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1, signed by itself, and its key, in one file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout - -out - -subj /CN=me"
    words = [*command.split(), "-addext", "subjectAltName=IP:127.0.0.1"]
    key = subprocess.run(words, check=True, capture_output=True)
    path.write_bytes(key.stdout)
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, pem: Path) -> Iterator[ZooKeeper]:
    """With a second port for TLS, and a user for SASL."""
    settings = secure_settings(free_port(), store=str(pem), trust=str(pem))
    user = user_option(tmp_path_factory.mktemp("sasl"), "broker", "right")
    with zookeeper(settings=settings, java_options=[user]) as running:
        yield running


def store_of(address: str, **settings: str) -> ZooKeeperStore:
    named = {name.replace("_", "."): text for name, text in settings.items()}
    return zookeeper_store(
        Config(
            {
                "zookeeper.connect": address,
                "zookeeper.connection.timeout.ms": "20000",
                "broker.id": "1",
                **named,
            }
        )
    )


def access_of(scheme: str, password: str, pem: Path | None = None) -> ZooKeeperAccess:
    """With ACLs for what is created; `pem`: over TLS."""
    settings = {
        "zookeeper.connect": "somewhere:1",
        "zookeeper.set.acl": "true",
        "odradek.zookeeper.auth.scheme": scheme,
        "odradek.zookeeper.auth.username": "broker",
        "odradek.zookeeper.auth.password": password,
    }
    if pem is not None:
        settings |= {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(pem),
        }
    return zookeeper_access(Config(settings))


def acls(server: ZooKeeper, path: str) -> list[tuple[str, str, list[str]]]:
    client = KazooClient(hosts=server.address)
    client.start()
    try:
        found, _ = client.get_acls(path)
        return [(acl.id.scheme, acl.id.id.split(":")[0], acl.acl_list) for acl in found]
    finally:
        client.stop()
        client.close()


@pytest.mark.java
@pytest.mark.parametrize("scheme", ["digest", "sasl"])
@asynchronous
async def test_who_may_do_what(server: ZooKeeper, scheme: str) -> None:
    chroot = new_chroot()
    store = store_of(
        server.address + chroot,
        odradek_zookeeper_auth_scheme=scheme,
        odradek_zookeeper_auth_username="broker",
        odradek_zookeeper_auth_password="right",
        zookeeper_set_acl="true",
    )
    session = await store.open_session(TIMEOUT_MS)
    for path in ("/brokers", "/consumers", "/config", "/config/users"):
        await session.create(path, b"x")
    mine = (scheme, "broker", ["ALL"])
    world = ("world", "anyone", ["READ"])
    assert acls(server, f"{chroot}/brokers") == [mine, world]
    assert acls(server, f"{chroot}/config") == [mine, world]
    assert acls(server, f"{chroot}/consumers") == [("world", "anyone", ["ALL"])]
    stranger = await store_of(server.address + chroot).open_session(TIMEOUT_MS)
    assert (await stranger.get("/brokers"))[0] == b"x"
    for refused in (
        stranger.set("/brokers", b"y"),
        stranger.create("/brokers/ids"),
        stranger.get("/config/users"),
    ):
        with pytest.raises(NotAllowed, match="ACL of /"):
            await refused
    await stranger.create("/consumers/c")
    await stranger.close()
    await store.close()


SECRET = (
    "/config/users",
    "/config/users/alice",
    "/config/brokers",
    "/odradek",
    "/odradek/scram_secret",
)
READABLE = (
    "/brokers/ids",
    "/config/topics",
    "/controller",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl/Topic",
)


@pytest.mark.java
@asynchronous
async def test_what_a_stranger_can_do_beside_a_broker(server: ZooKeeper, tmp_path: Path) -> None:
    """Not read the users, not add an ACL, not become the controller."""
    chroot = new_chroot()
    settings = {
        "zookeeper.connect": server.address + chroot,
        "zookeeper.connection.timeout.ms": "20000",
        "broker.id": "1",
        "odradek.zookeeper.auth.scheme": "digest",
        "odradek.zookeeper.auth.username": "broker",
        "odradek.zookeeper.auth.password": "right",
        "zookeeper.set.acl": "true",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    async with running(tmp_path, settings) as broker:
        client = await broker.client()
        assert await add_scram_user(client, "alice", "secret") == 0
        stranger = KazooClient(hosts=server.address + chroot)
        await asyncio.to_thread(stranger.start)
        try:
            for path in SECRET:
                for refused in (stranger.get, stranger.get_children):
                    with pytest.raises(NoAuthError):
                        await asyncio.to_thread(refused, path)
            for path in READABLE:
                await asyncio.to_thread(stranger.get, path)
            for path in (*SECRET, *READABLE):
                with pytest.raises(NoAuthError):
                    await asyncio.to_thread(stranger.set, path, b"{}")
                with pytest.raises((NoAuthError, NoChildrenForEphemeralsError)):
                    await asyncio.to_thread(stranger.create, f"{path}/mine", b"{}")
            with pytest.raises(NoAuthError):
                await asyncio.to_thread(stranger.delete, "/controller")
        finally:
            await asyncio.to_thread(stranger.stop)
            stranger.close()


@pytest.mark.java
@asynchronous
async def test_a_wrong_password(server: ZooKeeper) -> None:
    store = store_of(
        server.address,
        odradek_zookeeper_auth_scheme="sasl",
        odradek_zookeeper_auth_username="broker",
        odradek_zookeeper_auth_password="wrong",
    )
    with pytest.raises(CoordinationLost, match="refuses these credentials"):
        await store.open_session(TIMEOUT_MS)


@pytest.mark.java
def test_who_may_not_see_a_whole_tree(server: ZooKeeper, pem: Path) -> None:
    wrong = access_of("sasl", "wrong")
    with (
        pytest.raises(CoordinationLost, match="refuses the credentials"),
        zookeeper_tree(server.address, wrong) as tree,
    ):
        tree.read()
    distrusting = access_of("sasl", "secret")._replace(
        connection_timeout_ms=2_000, tls=ssl.create_default_context()
    )
    address = f"127.0.0.1:{server.settings['secureClientPort']}"
    with (
        pytest.raises(CoordinationLost, match="cannot be reached"),
        zookeeper_tree(address, distrusting),
    ):
        pass


@pytest.mark.java
@asynchronous
async def test_tls(server: ZooKeeper, pem: Path) -> None:
    chroot = new_chroot()
    address = f"127.0.0.1:{server.settings['secureClientPort']}{chroot}"
    tls = {
        "zookeeper_ssl_client_enable": "true",
        "zookeeper_ssl_truststore_location": str(pem),
    }
    store = store_of(
        address, **tls, zookeeper_ssl_keystore_location=str(pem), zookeeper_set_acl="true"
    )
    session = await store.open_session(TIMEOUT_MS)
    await session.create("/brokers", b"x")
    assert acls(server, f"{chroot}/brokers")[0][0] == "x509"
    await store.close()
    stranger = store_of(address, zookeeper_ssl_client_enable="true")
    stranger._connection_timeout_ms = 4000
    with pytest.raises(StoreError, match="self-signed certificate"):
        await stranger.open_session(TIMEOUT_MS)


@pytest.mark.java
@pytest.mark.parametrize("scheme", ["digest", "sasl"])
def test_a_whole_tree_over_tls(server: ZooKeeper, pem: Path, scheme: str) -> None:
    chroot = new_chroot()
    address = f"127.0.0.1:{server.settings['secureClientPort']}{chroot}"
    nodes = {"/brokers": b"x"} | {f"/brokers/{number}": b"y" * 1000 for number in range(300)}
    with zookeeper_tree(address, access_of(scheme, "right", pem)) as tree:
        tree.apply([Create(path, data) for path, data in nodes.items()], lambda done: None)
    with zookeeper_tree(address, access_of(scheme, "right", pem)) as tree:
        assert tree.read() == nodes
    mine = (scheme, "broker", ["ALL"])
    world = ("world", "anyone", ["READ"])
    assert acls(server, chroot) == acls(server, f"{chroot}/brokers/1") == [mine, world]


def loop_handler(tls: ssl.SSLContext) -> LoopHandler:
    return LoopHandler(tls, handshake_s=10)


@pytest.mark.slow
@pytest.mark.parametrize("handler_with", [loop_handler, _with_tls])
@asynchronous
async def test_answers_that_came_in_one_tls_record(
    pem: Path, handler_with: Callable[[ssl.SSLContext], Any]
) -> None:
    """Once the first is read, TLS holds the others: the wire is silent until the next ping."""
    at_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    at_server.load_cert_chain(pem)
    handler = handler_with(ssl.create_default_context(cafile=str(pem)))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        connecting = asyncio.to_thread(
            handler.create_connection, address, hostname="127.0.0.1", timeout=10
        )
        connected = asyncio.create_task(connecting)
        accepted, _ = await asyncio.to_thread(listening.accept)
        accepted.settimeout(10)
        server = await asyncio.to_thread(at_server.wrap_socket, accepted, server_side=True)
        client = await connected
    with server, client:
        server.sendall(b"first,second")
        assert client.recv(6) == b"first,"
        assert handler.select([client], [], [], 0) == ([client], [], [])
        assert client.recv(100) == b"second"
        assert handler.select([client], [], [], 0) == ([], [], [])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"zookeeper.set.acl": "true"}, "needs somebody whom ZooKeeper knows"),
        ({"odradek.zookeeper.auth.username": "me"}, "go together"),
        ({"odradek.zookeeper.auth.password": "me"}, "go together"),
        ({"odradek.zookeeper.auth.scheme": "kerberos"}, "digest, sasl"),
        ({"zookeeper.ssl.crl.enable": "true"}, "a revoked certificate would be trusted"),
        ({"zookeeper.ssl.ocsp.enable": "true"}, "a revoked certificate would be trusted"),
        ({"zookeeper.ssl.cipher.suites": "X"}, "other ciphers"),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1.3"}, "other TLS versions"),
        ({"zookeeper.ssl.protocol": "TLSv1.3"}, "another TLS version"),
    ],
    ids=str,
)
def test_settings_that_are_refused(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Config({"zookeeper.connect": "h:1", **settings})


@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_stores_of_java_are_refused(store: str, tmp_path: Path) -> None:
    name = f"zookeeper_ssl_{store}"
    jks, bad = tmp_path / "x.jks", tmp_path / "x.pem"
    jks.touch()
    bad.write_text("no certificate")
    for location, kind, sentence in (
        (jks, {}, "only PEM files"),
        (bad, {f"{name}_type": "PKCS12"}, "only PEM files"),
        (bad, {}, str(bad)),
        (tmp_path / "missing.pem", {}, "No such file"),
    ):
        with pytest.raises(StoreError, match=rf"^zookeeper\.ssl\.{store}\.location=.*{sentence}"):
            store_of(
                "h:1",
                zookeeper_ssl_client_enable="true",
                **{f"{name}_location": str(location)},
                **kind,
            )


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("a:1", ("a:1", "")),
        ("a:1,b:2/", ("a:1,b:2", "")),
        ("[::1]:2181/a/b/", ("[::1]:2181", "/a/b")),
    ],
)
def test_addresses(address: str, parts: tuple[str, str]) -> None:
    assert parse_address(address) == parts


@pytest.mark.parametrize(
    "address", ["", "/a", "a:1,,b:2", "a b:1", "a:1/../b", "a:1//b", "a:65536", "a:x", "::1:2181"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(StoreError, match=r"is not HOST:PORT\[,HOST:PORT\]\[/chroot\]$"):
        parse_address(address)


@asynchronous
async def test_kazoo_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "kazoo", None)
    store = ZooKeeperStore("h:1", connection_timeout_ms=1000)
    with pytest.raises(StoreError, match=r"pip install 'odradek\[zookeeper\]'"):
        await store.open_session(TIMEOUT_MS)


def test_pure_sasl_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.broker.coordination.zookeeper.find_spec", lambda name: None)
    with pytest.raises(StoreError, match="pure-sasl"):
        store_of(
            "h:1",
            odradek_zookeeper_auth_scheme="sasl",
            odradek_zookeeper_auth_username="a",
            odradek_zookeeper_auth_password="b",
        )

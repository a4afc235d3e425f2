"""Certificates and their settings that change while the broker runs."""

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from odradek.broker import certificates as loading
from odradek.broker import slow_reads
from odradek.broker.config import Config
from odradek.broker.runtime import Offload, Runtime
from odradek.broker.server import StartupError
from odradek.broker.settings.password_encoder import PasswordEncoder
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k32_describe_configs import DescribeConfigsResourceResult
from odradek.protocol.messages.k44_incremental_alter_configs import AlterConfigsResourceResponse
from tests.support.awaiting import until
from tests.support.certificates import Authority, Certificates, Issued, openssl
from tests.support.client import Client

from .requests import change_configs, describe_configs, metadata
from .running import HOST, RunningBroker, running

BROKER, SET, DELETE = 4, 0, 1
PREFIX = "listener.name.ssl.ssl."
KEYSTORE, TRUSTSTORE = f"{PREFIX}keystore.location", f"{PREFIX}truststore.location"
PASSWORD = f"{PREFIX}keystore.password"
HUNTER2 = "hunter2"
Quiet = pytest.LogCaptureFixture


async def alter(
    broker: RunningBroker, changes: Mapping[str, str | None], name: str = "0"
) -> str | None:
    asked = [(key, DELETE if text is None else SET, text) for key, text in changes.items()]
    async with await Client.connect(broker.listeners[1].port) as client:
        (answer,) = (await client.ask(change_configs(BROKER, name, *asked), 1)).responses
    assert isinstance(answer, AlterConfigsResourceResponse)
    assert HUNTER2 not in str(answer.error_message)
    return (
        f"{ErrorCode(answer.error_code).name}: {answer.error_message}"
        if answer.error_code
        else None
    )


async def described(broker: RunningBroker, *names: str) -> list[DescribeConfigsResourceResult]:
    async with await Client.connect(broker.listeners[1].port) as client:
        (result,) = (await client.ask(describe_configs(BROKER, "0", *names), 4)).results
    return list(result.configs)


async def shown(broker: RunningBroker, trust: str | Path) -> bytes:
    """The certificate that the broker shows a new client."""
    context = ssl.create_default_context(cafile=str(trust))
    client = await broker.client(ssl=context)
    await client.ask(metadata(), 12)
    der: bytes = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return der


def own(issued: Issued) -> bytes:
    return ssl.PEM_cert_to_DER_cert(issued.certificate.read_text())


def settings_of(certificates: Certificates, **more: str) -> dict[str, str]:
    return {
        "listeners": f"SSL://{HOST}:0,PLAINTEXT://{HOST}:0",
        KEYSTORE: str(certificates.broker.store),
        "ssl.truststore.location": certificates.trust,
    } | {name.replace("_", "."): value for name, value in more.items()}


@pytest.fixture
def successor(certificates: Certificates) -> Issued:
    """A new certificate with the names of the old one."""
    return certificates.authority.issue("successor", "/CN=broker")


def pkcs12(issued: Issued, path: Path, password: str = HUNTER2) -> str:
    own = ("-inkey", str(issued.key), "-in", str(issued.certificate), "-out", str(path))
    openssl("pkcs12", "-export", *own, "-passout", f"pass:{password}")
    return str(path)


def stored(data: bytes) -> dict[str, str]:
    config: dict[str, str] = json.loads(data)["config"]
    return config


@pytest.mark.slow
def test_new_connections_get_the_new_certificate_and_old_ones_live_on(
    tmp_path: Path, certificates: Certificates, successor: Issued
) -> None:
    async def main() -> None:
        async with running(tmp_path, settings_of(certificates)) as broker:
            before = await broker.client(ssl=ssl.create_default_context(cafile=certificates.trust))
            assert await shown(broker, certificates.trust) == own(certificates.broker)
            assert await alter(broker, {KEYSTORE: str(successor.store)}) is None
            assert await shown(broker, certificates.trust) == own(successor)
            await before.ask(metadata(), 12)
            assert await alter(broker, {KEYSTORE: None}) is None
            assert await shown(broker, certificates.trust) == own(certificates.broker)

    asyncio.run(main())


@pytest.mark.slow
def test_an_unchanged_path_is_read_again_if_its_file_has_changed(
    tmp_path: Path, certificates: Certificates, successor: Issued
) -> None:
    """By any change of the broker's own settings, as in Kafka."""
    store = tmp_path / "store"

    async def main() -> None:
        async with running(tmp_path, settings_of(certificates) | {KEYSTORE: str(store)}) as broker:
            store.write_text(successor.store.read_text())
            assert await alter(broker, {"log.cleaner.threads": "2"}, "") is None
            assert await shown(broker, certificates.trust) == own(certificates.broker)
            assert await alter(broker, {KEYSTORE: str(store)}) is None
            assert await shown(broker, certificates.trust) == own(successor)
            store.write_text(certificates.broker.store.read_text())
            assert await alter(broker, {"log.cleaner.threads": "1"}) is None
            assert await shown(broker, certificates.trust) == own(certificates.broker)
            store.write_text("half of it")
            told = await alter(broker, {"log.cleaner.threads": "2"})
            assert (
                told == f"INVALID_CONFIG: {KEYSTORE}={store} is not PEM: it has nothing from "
                "-----BEGIN to -----END"
            )
            assert await shown(broker, certificates.trust) == own(certificates.broker)
            store.unlink()
            assert await alter(broker, {"log.cleaner.threads": "2"}) is None
            assert await shown(broker, certificates.trust) == own(certificates.broker)

    store.write_text(certificates.broker.store.read_text())
    asyncio.run(main())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({KEYSTORE: "/nowhere"}, f"INVALID_REQUEST: {KEYSTORE}=/nowhere cannot be read"),
        ({KEYSTORE: "alice"}, "INVALID_REQUEST: the new certificate has the subject 'CN=alice,"),
        ({KEYSTORE: "elsewhere"}, "INVALID_REQUEST: the new certificate lacks subject alternative"),
        ({TRUSTSTORE: "key"}, f"INVALID_REQUEST: {TRUSTSTORE}="),
        ({f"{PREFIX}client.auth": "maybe"}, f"INVALID_REQUEST: {PREFIX}client.auth=maybe is not"),
        ({f"{PREFIX}allow.dn.changes": "true"}, "INVALID_REQUEST: a running broker cannot change"),
        ({"ssl.allow.dn.changes": "true"}, "INVALID_REQUEST: a running broker cannot change"),
        ({"ssl.keystore.location": "/x"}, "INVALID_REQUEST: only of a single listener can be"),
        ({"listener.name.foo.ssl.client.auth": "none"}, "INVALID_REQUEST: listener.name.foo.ssl."),
        ({"listener.name.SSL.ssl.client.auth": "none"}, "INVALID_CONFIG: there is no config named"),
        ({PASSWORD: HUNTER2}, "INVALID_REQUEST: ssl.keystore.password"),
    ],
)
def test_what_is_refused_leaves_the_old_certificates(
    changes: dict[str, str], told: str, tmp_path: Path, certificates: Certificates
) -> None:
    elsewhere = certificates.authority.issue("elsewhere", "/CN=broker", host="DNS:elsewhere")
    files = {
        "alice": str(certificates.alice.store),
        "elsewhere": str(elsewhere.store),
        "key": str(certificates.broker.key),
    }
    asked = {name: files.get(text, text) for name, text in changes.items()}

    async def main() -> None:
        async with running(tmp_path, settings_of(certificates)) as broker:
            before = await described(broker)
            answer = await alter(broker, asked)
            assert answer is not None
            assert answer.startswith(told.replace("ssl.keystore.password", PASSWORD))
            assert await described(broker) == before
            assert await shown(broker, certificates.trust) == own(certificates.broker)

    asyncio.run(main())


def test_of_all_brokers_they_cannot_change(tmp_path: Path, certificates: Certificates) -> None:
    async def main() -> None:
        async with running(tmp_path, settings_of(certificates)) as broker:
            told = await alter(broker, {KEYSTORE: str(certificates.broker.store)}, "")
            assert told == f"INVALID_REQUEST: only of a single broker can be changed: {KEYSTORE}"

    asyncio.run(main())


@pytest.mark.slow
def test_names_may_change_where_they_are_allowed_to(
    tmp_path: Path, certificates: Certificates
) -> None:
    elsewhere = certificates.authority.issue("other", "/CN=other", host="IP:127.0.0.1,DNS:other")
    allowed = settings_of(certificates) | {f"{PREFIX}allow.dn.changes": "true"}

    async def main() -> None:
        async with running(tmp_path, allowed) as broker:
            assert await alter(broker, {KEYSTORE: str(elsewhere.store)}) is None
            assert await shown(broker, certificates.trust) == own(elsewhere)
            told = await alter(broker, {KEYSTORE: str(certificates.broker.store)})
            assert told is not None and "ssl.allow.san.changes is false" in told

    asyncio.run(main())


@pytest.mark.slow
def test_whom_a_listener_trusts_can_change(tmp_path: Path, certificates: Certificates) -> None:
    theirs = Authority(tmp_path / "new")
    bob = theirs.issue("bob", "/CN=bob")

    async def main() -> None:
        async with running(tmp_path, settings_of(certificates)) as broker:
            changes = {TRUSTSTORE: str(theirs.certificate), f"{PREFIX}client.auth": "required"}
            assert await alter(broker, changes) is None
            context = ssl.create_default_context(cafile=certificates.trust)
            for client, is_in in ((certificates.alice, False), (bob, True)):
                context.load_cert_chain(client.certificate, client.key)
                try:
                    await (await broker.client(ssl=context)).ask(metadata(), 12)
                except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
                    assert not is_in
                else:
                    assert is_in

    asyncio.run(main())


@pytest.mark.slow
def test_passwords_are_kept_encrypted_and_never_shown(
    tmp_path: Path, certificates: Certificates, successor: Issued, caplog: Quiet
) -> None:
    settings = settings_of(certificates, password_encoder_secret="top")
    changes = {KEYSTORE: pkcs12(successor, tmp_path / "store"), PASSWORD: HUNTER2}

    async def main() -> None:
        async with running(tmp_path, settings) as broker:
            assert await alter(broker, changes) is None
            assert await shown(broker, certificates.trust) == own(successor)
            data, _ = await broker.session.get("/config/brokers/0")
            text = stored(data)[PASSWORD]
            assert PasswordEncoder("top").decode(text) == HUNTER2
            assert await alter(broker, {"log.cleaner.threads": "2"}) is None
            data, _ = await broker.session.get("/config/brokers/0")
            assert stored(data)[PASSWORD] == text, "not encrypted again"
            (password,) = await described(broker, PASSWORD)
            assert (password.value, password.is_sensitive) == (None, True)
            wrong = await alter(broker, {PASSWORD: "hunter3"})
            assert wrong is not None and wrong.startswith("INVALID_REQUEST")
            assert await shown(broker, certificates.trust) == own(successor)
        # With a new secret: the old one's passwords are encrypted anew at the start.
        renewed = settings | {
            "password.encoder.secret": "new",
            "password.encoder.old.secret": "top",
        }
        async with running(tmp_path, renewed) as broker:
            assert await shown(broker, certificates.trust) == own(successor)
            data, _ = await broker.session.get("/config/brokers/0")
            assert PasswordEncoder("new").decode(stored(data)[PASSWORD]) == HUNTER2
        caplog.clear()
        # Without it: as if there were no password, so PKCS12 cannot be opened.
        del settings["password.encoder.secret"]
        with pytest.raises(StartupError, match=r"cannot be opened with .*keystore\.password"):
            async with running(tmp_path, settings):
                raise AssertionError
        assert any(f"{PASSWORD}: it is encrypted, and" in line for line in caplog.messages)

    asyncio.run(main())
    assert HUNTER2 not in caplog.text


@pytest.mark.slow
def test_without_a_secret_no_password_is_kept(
    tmp_path: Path, certificates: Certificates, successor: Issued
) -> None:
    changes = {KEYSTORE: pkcs12(successor, tmp_path / "store"), PASSWORD: HUNTER2}

    async def main() -> None:
        async with running(tmp_path, settings_of(certificates)) as broker:
            told = await alter(broker, changes)
            assert told == (
                f"INVALID_CONFIG: {PASSWORD} cannot be kept, as password.encoder.secret is not set"
            )
            assert await shown(broker, certificates.trust) == own(certificates.broker)

    asyncio.run(main())


@pytest.mark.slow
def test_settings_of_a_listener_are_described_as_kafka_does(
    tmp_path: Path, certificates: Certificates, successor: Issued
) -> None:
    """Those of Kafka 3.9.2: read-only, with the same setting of all listeners as a synonym."""
    more = {f"{PREFIX}keystore.type": "PEM", f"{PREFIX}key.password": "x"}

    async def main() -> None:
        async with running(tmp_path, settings_of(certificates) | more) as broker:
            changes = {KEYSTORE: str(successor.store), TRUSTSTORE: certificates.trust}
            assert await alter(broker, changes) is None
            found = [each for each in await described(broker) if each.name.startswith("listener.n")]
            assert await described(broker, *(each.name for each in found)) == found
            assert [
                (each.name.removeprefix(PREFIX), each.value, each.config_source, each.config_type,
                 each.is_sensitive, each.read_only,
                 [(s.name.removeprefix(PREFIX), s.value, s.source) for s in each.synonyms])
                for each in found
            ] == [
                ("key.password", None, 4, 9, True, True, [("key.password", None, 4)]),
                ("keystore.location", str(successor.store), 2, 2, False, True,
                 [("keystore.location", str(successor.store), 2),
                  ("keystore.location", str(certificates.broker.store), 4)]),
                ("keystore.type", "PEM", 4, 2, False, True,
                 [("keystore.type", "PEM", 4), ("ssl.keystore.type", "JKS", 5)]),
                ("truststore.location", certificates.trust, 2, 2, False, True,
                 [("truststore.location", certificates.trust, 2),
                  ("ssl.truststore.location", certificates.trust, 4)]),
            ]  # fmt: skip
            assert await described(broker, f"{PREFIX}client.auth") == [], "not set"

    asyncio.run(main())


def test_connections_to_other_brokers_use_the_new_ones(
    certificates: Certificates, successor: Issued, caplog: Quiet
) -> None:
    settings = settings_of(certificates) | {
        "listeners": f"SSL://{HOST}:9093,PLAINTEXT://{HOST}:9092",
        "security.inter.broker.protocol": "SSL",
        "zookeeper.connect": "nowhere:2181",
        "ssl.allow.dn.changes": "true",
    }
    config = Config(settings)

    async def main() -> None:
        runtime = Runtime.system()
        loaded = loading.Certificates(config, runtime)
        first = loaded.securities["SSL"].context
        config.change(own={KEYSTORE: str(successor.store)})
        await loaded.renew(config, rereads=False)
        second = loaded.securities["SSL"].context
        assert second is not first
        assert loaded.tls("SSL").certificate == own(successor)
        config.change(own={KEYSTORE: str(certificates.stranger.store)})
        with pytest.raises(Refused, match="they would refuse each other"):
            await loaded.check(config)
        await loaded.renew(config, rereads=False)
        assert loaded.securities["SSL"].context is second
        assert loaded.tls("SSL").certificate == own(successor)

    asyncio.run(main())
    assert "certificates not renewed listener=SSL error=the listener SSL is for" in caplog.text


def test_of_several_changes_at_once_the_last_one_counts(
    certificates: Certificates, successor: Issued
) -> None:
    """Also if it comes just when one ends for which another one waits."""
    config = Config(settings_of(certificates))
    ends: list[asyncio.Future[None]] = []

    async def offload(read: Callable[..., Any], *given: Any) -> Any:
        """Read as a thread does, until the test says so."""
        ends.append(asyncio.get_running_loop().create_future())
        await ends[-1]
        return read(*given)

    async def main() -> None:
        runtime = replace(Runtime.system(), unending_offload=cast("Offload", offload))
        loaded = loading.Certificates(config, runtime)
        renewing: list[asyncio.Task[None]] = []

        def change(store: Path | None) -> None:
            config.change(own={} if store is None else {KEYSTORE: str(store)})
            renewing.append(asyncio.create_task(loaded.renew(config, rereads=False)))

        change(successor.store)
        await until(lambda: len(ends) == 1)
        assert loaded._reads._reading is not None
        loaded._reads._reading.add_done_callback(lambda _: change(successor.store))
        change(None)
        await asyncio.sleep(0)
        for count in (1, 2, 3):
            await until(lambda wanted=count: len(ends) == wanted)  # type: ignore[misc]
            ends[count - 1].set_result(None)
        await asyncio.gather(*renewing)
        assert loaded.tls("SSL").certificate == own(successor)

    asyncio.run(main())


@pytest.mark.slow
def test_a_store_that_does_not_answer_stops_nobody(
    tmp_path: Path, certificates: Certificates, successor: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread waits for it, however often it is asked for, and the old one stays."""
    answers, readers = threading.Event(), []
    load = loading._load

    def slow(config: Config, listener_name: str) -> loading._Loaded:
        readers.append(threading.current_thread())
        assert answers.wait(60)
        return load(config, listener_name)

    async def main() -> None:
        async with running(tmp_path, settings_of(certificates)) as broker:
            monkeypatch.setattr(loading, "_load", slow)
            monkeypatch.setattr(slow_reads, "TIMEOUT_S", 0.3)
            waiting = asyncio.ensure_future(alter(broker, {KEYSTORE: str(successor.store)}))
            await until(lambda: len(readers) == 1)
            assert await shown(broker, certificates.trust) == own(certificates.broker)
            told = "INVALID_REQUEST: the stores of the listener SSL could not be read in 0 s: see"
            assert str(await waiting).startswith(told)
            again = await alter(broker, {KEYSTORE: str(successor.store)})
            assert str(again).startswith(told)
            assert len(readers) == 1 and readers[0] is not threading.main_thread()
            answers.set()
            monkeypatch.setattr(slow_reads, "TIMEOUT_S", 30.0)
            assert await alter(broker, {KEYSTORE: str(successor.store)}) is None
            assert await shown(broker, certificates.trust) == own(successor)

    asyncio.run(main())

"""The credentials of brokers for each other, and that wrong ones prevent the start."""

import asyncio
import threading
from pathlib import Path

import pytest

from odradek.broker import slow_reads
from odradek.broker.config import Config, ConfigError
from odradek.broker.peers.security import load_securities
from odradek.broker.runtime import Runtime
from odradek.broker.sasl import scram, token_login
from odradek.broker.sasl.broker_credentials import check_credentials
from odradek.broker.sasl.client import ClientMechanism, Credentials, ServerRefused
from odradek.broker.sasl.credentials import ScramUsers, encode_credential
from odradek.broker.sasl.mechanism import ServerMechanism
from odradek.broker.sasl.oauthbearer import ClientFirst
from odradek.broker.sasl.offers import make_offer
from odradek.broker.settings.sasl import ENDPOINT_LOGIN_HANDLER
from odradek.jaas import OAUTHBEARER_MODULE
from tests.support.awaiting import until
from tests.support.tokens import unsigned

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BROKER = 'username="broker" password="secret"'
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "zookeeper.connect": "zk:2181",
}


def prefixed(mechanism: str) -> str:
    return f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config"


def of_plain(options: str) -> dict[str, str]:
    named = {"sasl.mechanism.inter.broker.protocol": "PLAIN", prefixed("PLAIN"): PLAIN + options}
    return SETTINGS | named


def of_scram(mechanism: str, options: str) -> dict[str, str]:
    named = {
        "sasl.mechanism.inter.broker.protocol": mechanism,
        prefixed(mechanism): SCRAM + options,
        prefixed("PLAIN"): f'{PLAIN} user_x="y";',
    }
    return SETTINGS | named


def loaded(settings: dict[str, str]) -> Credentials:
    credentials = load_securities(Config(settings), {}, Runtime.system())[
        "SASL_PLAINTEXT"
    ].credentials
    assert credentials is not None
    return credentials


def begun(credentials: Credentials) -> ClientMechanism:
    """Begin a login."""

    async def begin() -> ClientMechanism:
        return await credentials.begin()

    return asyncio.run(begin())


def check(settings: dict[str, str], users: ScramUsers | None = None) -> None:
    """As a broker does when it starts."""
    credentials = loaded(settings)
    given = Config(settings).listener_sasl("SASL_PLAINTEXT")
    assert given is not None
    offer = make_offer(given, users or ScramUsers(), b"cluster", Runtime.system())
    begin: ServerMechanism = offer.mechanisms[credentials.mechanism]()
    asyncio.run(check_credentials(credentials, lambda: begin, "SASL_PLAINTEXT"))


def users_with(mechanism: str, password: str) -> ScramUsers:
    kind = scram.MECHANISMS[mechanism]
    salted = scram.salted_password(kind, password, salt=b"salt", iterations=4096)
    known = scram.credential(kind, salted, salt=b"salt", iterations=4096)
    users = ScramUsers()
    users.apply("broker", {mechanism: encode_credential(known)})
    return users


def test_plain() -> None:
    settings = of_plain(f' {BROKER} user_broker="secret" user_alice="hers";')
    assert loaded(settings).user == "broker"
    check(settings)


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
def test_scram(mechanism: str) -> None:
    settings = of_scram(mechanism, f" {BROKER};")
    assert loaded(settings)[:2] == (mechanism, "broker")
    check(settings, users_with(mechanism, "secret"))


@pytest.mark.parametrize(
    ("settings", "users", "reason"),
    [
        (of_plain(f' {BROKER} user_alice="hers";'), None, "as 'broker' by PLAIN .*unknown user"),
        (of_plain(f' {BROKER} user_broker="other";'), None, "as 'broker' by PLAIN .*wrong"),
        (
            of_scram("SCRAM-SHA-256", f" {BROKER};"),
            None,
            ".*on the listener SASL_PLAINTEXT: unknown user",
        ),
        (
            of_scram("SCRAM-SHA-256", f" {BROKER};"),
            users_with("SCRAM-SHA-256", "other"),
            ".*by SCRAM-SHA-256 on the listener SASL_PLAINTEXT: wrong password",
        ),
        (
            of_scram("SCRAM-SHA-512", f" {BROKER};"),
            users_with("SCRAM-SHA-256", "secret"),
            ".*by SCRAM-SHA-512 on the listener SASL_PLAINTEXT: unknown user",
        ),
    ],
)
def test_who_could_not_log_in_to_itself(
    settings: dict[str, str], users: ScramUsers | None, reason: str
) -> None:
    with pytest.raises(ConfigError, match="would not let this one log in " + reason) as error:
        check(settings, users)
    assert "secret" not in str(error.value)


BETWEEN = "sasl.mechanism.inter.broker.protocol"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (SETTINGS, f"^{BETWEEN}=GSSAPI is not built, and the listener SASL_PLAINTEXT is for"),
        (
            SETTINGS | {BETWEEN: "OAUTHBEARER"},
            r"OAUTHBEARER must be one of sasl\.enabled\.mechanisms=PLAIN",
        ),
        (
            SETTINGS | {BETWEEN: "PLAIN", "sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            r"PLAIN must be one of sasl\.enabled\.mechanisms=SCRAM-SHA-256",
        ),
        (SETTINGS | {BETWEEN: "PLAIN"}, rf"set {prefixed('PLAIN')} to {PLAIN} username="),
        (of_plain(' user_broker="secret";'), "cannot log in to others"),
        (of_plain(' username="broker";'), "cannot log in to others"),
        (
            of_scram("SCRAM-SHA-256", f' {BROKER} tokenauth="true";'),
            "tokenauth=true, but delegation tokens are not built",
        ),
        (
            SETTINGS | {BETWEEN: "SCRAM-SHA-256", prefixed("SCRAM-SHA-256"): f"{PLAIN} {BROKER};"},
            "SCRAM-SHA-256 needs",
        ),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as error:
        loaded(settings)
    assert "secret" not in str(error.value)


def test_a_broker_that_is_alone_needs_none() -> None:
    alone = {name: value for name, value in SETTINGS.items() if name != "zookeeper.connect"}
    (security,) = load_securities(Config(alone), {}, Runtime.system()).values()
    assert security.credentials is None


def of_tokens(options: str, **more: str) -> dict[str, str]:
    prefix = "listener.name.sasl_plaintext.oauthbearer."
    return {
        **SETTINGS,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        BETWEEN: "OAUTHBEARER",
        prefixed("OAUTHBEARER"): f"{OAUTHBEARER_MODULE} required {options};",
        **{f"{prefix}{name}": text for name, text in more.items()},
    }


HANDLER = "sasl.login.callback.handler.class"
URL = "sasl.oauthbearer.token.endpoint.url"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def test_unsecured_tokens() -> None:
    settings = of_tokens("unsecuredLoginStringClaim_sub=broker unsecuredLoginExtension_a=b")
    assert loaded(settings)[:2] == ("OAUTHBEARER", "broker")
    check(settings)


def test_unsecured_tokens_that_the_brokers_refuse() -> None:
    options = "unsecuredLoginStringClaim_sub=broker unsecuredValidatorRequiredScope=x"
    with pytest.raises(ConfigError, match=r"as 'broker' by OAUTHBEARER .*lacks a scope"):
        check(of_tokens(options))


def from_file(file: Path, **more: str) -> dict[str, str]:
    url = f"file://{file}"
    return of_tokens("", **{HANDLER: ENDPOINT_LOGIN_HANDLER, URL: url, **more}) | {ALLOWED: url}


def test_the_token_in_a_file_is_read_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(unsigned({"name": "broker", "exp": 1}) + "\n")
    credentials = loaded(from_file(file, **{"sasl.oauthbearer.sub.claim.name": "name"}))
    assert credentials.user == "broker"
    file.write_text("another")
    assert begun(credentials).first() == ClientFirst("another").encode()
    file.unlink()
    with pytest.raises(ServerRefused, match=r"gets no login: the token in .* cannot be read: No"):
        begun(credentials)


def test_a_file_that_does_not_answer_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(unsigned({"sub": "broker", "exp": 1}))
    credentials = loaded(from_file(file))
    answers, readers = threading.Event(), []

    def slow(_: str) -> str:
        readers.append(threading.current_thread())
        assert answers.wait(60)
        return "late"

    async def test() -> None:
        for _ in range(2):
            with pytest.raises(ServerRefused, match=r"gets no login: .* no token within 0.05 s"):
                await credentials.begin()
        answers.set()
        await until(lambda: not readers[0].is_alive())
        assert (await credentials.begin()).first() == ClientFirst("late").encode()

    monkeypatch.setattr(token_login, "read_token", slow)
    monkeypatch.setattr(slow_reads, "TIMEOUT_S", 0.05)
    asyncio.run(test())
    assert len(readers) == 2 and threading.main_thread() not in readers


def test_a_file_that_does_not_have_a_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings = from_file(file, **{"sasl.oauthbearer.sub.claim.name": "name"})
    for text, reason in (
        (None, "cannot be read: No such file"),
        ("", "does not have a token"),
        ("a\nb", "does not have a token"),
        ("x" * 70_000, "does not have a token"),
        ("a.b.c", "does not name a user"),
        (unsigned({"sub": "broker"}), "does not name a user"),
    ):
        if text is not None:
            file.write_text(text)
        with pytest.raises(ConfigError, match=f"{URL}=file://.*{reason}"):
            loaded(settings)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (of_tokens(""), "unsecuredLoginStringClaim_sub must be the name of a user; or set"),
        (
            of_tokens("unsecuredLoginStringClaim_sub=b unsecuredLoginExtension_a='ü'"),
            "not allowed",
        ),
        (
            of_tokens("unsecuredLoginStringClaim_sub=b unsecuredLoginExtension_auth=x"),
            "not allowed",
        ),
        (of_tokens("username=x"), "username is not an option"),
        (of_tokens("", **{HANDLER: ENDPOINT_LOGIN_HANDLER}), "must be the URL of a token endpoint"),
        (
            of_tokens("", **{HANDLER: ENDPOINT_LOGIN_HANDLER, URL: "https://h/"}),
            f"https://h/ is not allowed: set {ALLOWED}",
        ),
        (
            of_tokens("", **{HANDLER: ENDPOINT_LOGIN_HANDLER, URL: "file:///token"}),
            f"file:///token is not allowed: set {ALLOWED}",
        ),
        (of_tokens("", **{HANDLER: "com.example.Login"}), "must be one of org"),
        (
            of_tokens("unsecuredLoginStringClaim_sub=b", **{URL: "https://h/"}),
            f"has no effect on unsecured tokens: set .*{HANDLER} to {ENDPOINT_LOGIN_HANDLER}",
        ),
    ],
)
def test_tokens_that_are_refused(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        loaded(settings)

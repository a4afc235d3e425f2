"""Logins, TLS, users and ACLs of the commands, against Apache Kafka 3.9.2 and against Odradek.

Both have an authorizer and ZooKeeper. The first users and ACLs are written there before the broker
starts.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from click.testing import CliRunner, Result

from odradek.cli import main
from tests.kafka.apache import HOST, Kafka39
from tests.kafka.process import BrokerServer, free_port
from tests.kafka.zookeeper import zookeeper as running_zookeeper
from tests.support.certificates import Certificates, openssl
from tests.support.secrets import QUOTED
from tests.support.waiting import until
from tests.wire.servers import OdradekServer

from .conftest import PATIENTLY, run_odradek

pytestmark = pytest.mark.java

PASSWORD: Final = QUOTED
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"


class Secure(NamedTuple):
    """A broker with a listener for each protocol, and its ZooKeeper."""

    broker: BrokerServer
    zookeeper_address: str
    directory: Path
    certificates: Certificates
    ports: Mapping[str, int]

    def file(self, protocol: str, **properties: str) -> str:
        """A properties file of a Java client."""
        named = {name.replace("_", "."): value for name, value in properties.items()}
        given = {
            "bootstrap.servers": f"{HOST}:{self.ports[protocol]}",
            "security.protocol": protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.certificates.trust,
            **named,
        }
        path = self.directory / f"client-{abs(hash(frozenset(given.items())))}.properties"
        lines = [f"{name}={escaped(value)}\n" for name, value in given.items() if value]
        path.write_text("".join(lines), encoding="utf-8")
        return str(path)

    def scram(self, protocol: str, user: str, mechanism: str, password: str = PASSWORD) -> str:
        """The file of a client that logs in by SCRAM."""
        return self.file(
            protocol, sasl_mechanism=mechanism, sasl_jaas_config=jaas(SCRAM, user, password)
        )

    @property
    def zookeeper(self) -> tuple[str, str]:
        """The options that name its ZooKeeper."""
        return "--zookeeper", self.zookeeper_address

    @property
    def admin(self) -> tuple[str, str]:
        """The options that name the broker, as a super user."""
        return "-b", self.broker.bootstrap_servers


def escaped(value: str) -> str:
    """A value in a properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def jaas(module: str, user: str, password: str) -> str:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    return f'{module} username="{user}" password="{quoted}";'


def run(*arguments: str, stdin: str = "") -> Result:
    result = CliRunner().invoke(main, [*arguments], input=stdin.encode())
    assert PASSWORD not in result.output
    return result


def done(*arguments: str, stdin: str = "") -> str:
    """The output of a command that must succeed."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str) -> str:
    """The sentence of a command that must fail."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.output.startswith("Error: ") and result.output.count("\n") == 1, result.output
    return result.output.removeprefix("Error: ").rstrip()


@pytest.fixture(scope="module", params=["kafka", "odradek"])
def secure(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    certificates: Certificates,
) -> Iterator[Secure]:
    """A broker whose first users and ACLs were written before it started."""
    directory = tmp_path_factory.mktemp("secure")
    with ExitStack() as stack:
        broker: Kafka39 | OdradekServer
        if request.param == "kafka":
            broker = Kafka39(directory / "broker")
            stack.callback(broker.close)
            (directory / "broker").mkdir()
            broker.start_zookeeper()
            zookeeper = broker.zookeeper
        else:
            zookeeper = stack.enter_context(
                running_zookeeper(directory=directory / "zookeeper")
            ).address
            broker = OdradekServer(directory / "broker")
            stack.callback(broker.close)
            broker.settings["zookeeper.connect"] = zookeeper
        ports = {"PLAINTEXT": broker.port}
        ports |= {name: free_port() for name in ("SASL_PLAINTEXT", "SSL", "SASL_SSL")}
        broker.settings |= broker_settings(certificates, ports)
        found = Secure(broker, zookeeper, directory, certificates, ports)
        at = found.zookeeper
        both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512")
        done("users", "add", "alice", *both, *at, "--password-file", "-", stdin=f"{PASSWORD}\n")
        done("users", "add", "bob", *at, "--password-file", "-", stdin=PASSWORD)
        allowed = ("acls", "add", *at, "--allow-principal", "User:alice")
        done(*allowed, "--producer", "--consumer", "--topic", "orders", "--group", "readers")
        broker.start()
        done("topics", "create", "orders", "-p", "1", "-r", "1", *found.admin)
        yield found


def broker_settings(certificates: Certificates, ports: Mapping[str, int]) -> dict[str, str]:
    return {
        "offsets.topic.replication.factor": "1",
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN} user_carol=plain;",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.trust,
        "listener.name.ssl.ssl.client.auth": "required",
    }


def test_users_written_to_zookeeper_log_in(secure: Secure) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        file = secure.scram("SASL_PLAINTEXT", "alice", mechanism)
        assert done("topics", "list", "-q", "-F", file) == "orders\n"


def test_who_does_what_is_in_the_right_protocol(secure: Secure) -> None:
    """Producing and consuming is librdkafka's, the rest kafka-python's."""
    file = secure.scram("SASL_SSL", "alice", "SCRAM-SHA-512")
    assert done("topics", "list", "-q", "-F", file) == "orders\n"
    produced = run_odradek("produce", "orders", "--value", "hello", "-F", file, *PATIENTLY)
    assert produced.returncode == 0, produced.stderr
    consumed = run_odradek(
        *("consume", "orders", "-g", "readers", "-o", "earliest", "-n", "1"),
        *("-F", file, *PATIENTLY),
    )
    assert (consumed.returncode, consumed.stdout) == (0, b"hello\n"), consumed.stderr
    other = run_odradek("consume", "orders", "-g", "others", "-n", "1", "-F", file, *PATIENTLY)
    assert other.returncode == 1
    assert b"Group authorization failed" in other.stderr


def test_plain_logins(secure: Secure) -> None:
    given = {"sasl_mechanism": "PLAIN"}
    right = secure.file("SASL_PLAINTEXT", **given, sasl_jaas_config=jaas(PLAIN, "carol", "plain"))
    assert done("topics", "list", "-q", "-F", right) == ""  # she may see none
    of_librdkafka = secure.file(
        "SASL_PLAINTEXT", **given, sasl_username="carol", sasl_password="plain"
    )
    assert done("topics", "list", "-q", "-F", of_librdkafka) == ""
    wrong = secure.file("SASL_PLAINTEXT", **given, sasl_jaas_config=jaas(PLAIN, "carol", PASSWORD))
    said = refused("topics", "list", "-F", wrong)
    assert said.endswith("refuses the login: Authentication failed: Invalid username or password")
    elsewhere = secure.file("SASL_SSL", **given, sasl_username="carol", sasl_password="plain")
    said = refused("topics", "list", "-F", elsewhere)
    assert said.endswith("has no login by PLAIN; it offers SCRAM-SHA-512")


def test_a_wrong_password_is_a_sentence(secure: Secure) -> None:
    file = secure.scram("SASL_SSL", "alice", "SCRAM-SHA-512", "hunter2")
    for command in (["topics", "list"], ["produce", "orders", "--value", "x"]):
        said = refused(*command, "-F", file)
        assert "refuses the login: Authentication failed during authentication due to inva" in said
        assert "hunter2" not in said


def test_certificates_in_files_and_inside_the_properties(secure: Secure) -> None:
    alice, trust = secure.certificates.alice, secure.certificates.trust
    in_files = secure.file("SSL", ssl_keystore_location=str(alice.store))
    blanks = {
        "ssl.truststore.location": "",
        "ssl.truststore.certificates": " ".join(Path(trust).read_text().split("\n")),
        "ssl.keystore.certificate.chain": " ".join(alice.certificate.read_text().split("\n")),
        "ssl.keystore.key": " ".join(alice.key.read_text().split("\n")),
    }
    inside = secure.file("SSL", **{name.replace(".", "_"): text for name, text in blanks.items()})
    principal = "User:CN=alice,OU=Readers,O=Example\\, Inc."
    done("acls", "add", "--allow-principal", principal, "--topic", "orders", *secure.admin)
    for file in (in_files, inside):
        assert done("topics", "list", "-q", "-F", file) == "orders\n"
        produced = run_odradek("produce", "orders", "--value", "x", "-F", file, *PATIENTLY)
        assert produced.returncode == 0, produced.stderr


def test_stores_in_pkcs12(secure: Secure, tmp_path: Path) -> None:
    own, trust = tmp_path / "own", tmp_path / "trust"
    export = ("pkcs12", "-export", "-passout", "pass:hunter2")
    openssl(*export, "-in", str(secure.certificates.alice.store), "-out", str(own))
    openssl(*export, "-in", secure.certificates.trust, "-nokeys", "-out", str(trust))
    file = secure.file(
        "SSL",
        ssl_keystore_location=str(own),
        ssl_keystore_password="hunter2",
        ssl_truststore_location=str(trust),
        ssl_truststore_password="hunter2",
    )
    produced = run_odradek("produce", "orders", "--value", "x", "-F", file, *PATIENTLY)
    assert produced.returncode == 0, produced.stderr
    assert done("topics", "list", "-q", "-F", file) == "orders\n"


def test_without_a_certificate_or_with_a_strangers(secure: Secure) -> None:
    assert "wants a client certificate" in refused("topics", "list", "-F", secure.file("SSL"))
    stranger = str(secure.certificates.stranger.store)
    file = secure.file("SSL", ssl_keystore_location=stranger)
    assert "wants a client certificate" in refused("topics", "list", "-F", file)


def test_users_of_a_running_cluster(secure: Secure) -> None:
    before = json.loads(done("users", "list", "--json", *secure.admin))
    assert before == json.loads(done("users", "list", "--json", *secure.zookeeper))
    assert [(user["user"], user["mechanism"]) for user in before] == [
        ("alice", "SCRAM-SHA-256"),
        ("alice", "SCRAM-SHA-512"),
        ("bob", "SCRAM-SHA-512"),
    ]
    file = secure.scram("SASL_PLAINTEXT", "d%v e", "SCRAM-SHA-256")
    for where in (secure.admin, secure.zookeeper):
        add = ("users", "add", "d%v e", "--mechanism", "SCRAM-SHA-256", "--iterations", "5000")
        done(*add, *where, "--password-file", "-", stdin=PASSWORD)
        shown = done("users", "list", "d%v e", *secure.admin).splitlines()
        assert shown[1].split() == ["d%v", "e", "SCRAM-SHA-256", "5000"]
        until(lambda: run("topics", "list", "-F", file).exit_code == 0)
        done("users", "delete", "d%v e", *where)
        assert refused("users", "list", "d%v e", *where) == "there is no user 'd%v e'"
        assert "there is no user" in refused("users", "delete", "d%v e", *where)
        done("users", "delete", "d%v e", "--if-exists", *where)
        until(lambda: run("topics", "list", "-F", file).exit_code == 1)


def are_gone(*acls: str) -> bool:
    return done("acls", "delete", *acls) == "there is no such ACL\n"


def test_acls_of_a_running_cluster(secure: Secure) -> None:
    """What one door writes the other shows, and Kafka decides by it."""
    file = secure.scram("SASL_PLAINTEXT", "bob", "SCRAM-SHA-512")
    doors = (secure.admin, secure.zookeeper)
    for where, there in (doors, doors[::-1]):
        for kind in ("literal", "prefixed"):
            chosen = ("--topic", "orders" if kind == "literal" else "ord")
            what = ("--operation", "describe", *chosen, "--resource-pattern-type", kind)
            done("acls", "add", "--allow-principal", "User:bob", *what, *where)
            until(lambda: done("topics", "list", "-q", "-F", file) == "orders\n")
            listed = json.loads(done("acls", "list", "--principal", "User:bob", "--json", *there))
            assert [acl["pattern_type"].lower() for acl in listed] == [kind]
            denied = ("acls", "add", "--deny-principal", "User:bob", "--topic", "orders", *where)
            done(*denied, "--deny-host", HOST)
            until(lambda: done("topics", "list", "-q", "-F", file) == "")
            matching = ("--topic", "orders", "--resource-pattern-type", "match")
            bobs = ("--principal", "User:bob")
            would = done("acls", "delete", *matching, *bobs, "--dry-run", *there)
            assert len(would.splitlines()) == 2
            said = done("acls", "delete", *bobs, *there)
            assert said.count("deleted: User:bob may") == 2
            # Kafka's other door hears of it a little later.
            until(partial(are_gone, *bobs, *where))
    everything = [json.loads(done("acls", "list", "--json", *where)) for where in doors]
    assert everything[0] == everything[1] != []


def test_what_brokers_refuse(secure: Secure) -> None:
    file = secure.scram("SASL_PLAINTEXT", "bob", "SCRAM-SHA-512")
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused("acls", "list", "-F", file)
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused("users", "list", "-F", file)
    deleting = ("acls", "delete", "--topic", "orders")
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused(*deleting, "-F", file)
    adding = ("acls", "add", "--allow-principal", "User:bob", "--topic", "t")
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused(*adding, "-F", file)

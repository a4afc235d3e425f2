"""SCRAM users in the store of a stopped broker, and the broker that starts with them.

tests/cli/test_secure_brokers.py has the other two places: ZooKeeper and a running cluster.
"""

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from odradek.broker.coordination.journal import SqliteJournal
from odradek.broker.coordination.znodes import decode_config
from odradek.broker.sasl.credentials import decode_credential
from odradek.broker.sasl.scram import SHA_256, credential, salted_password
from odradek.broker.server import STORE_FILE
from odradek.cli import main
from odradek.secure.secret import Secret
from tests.kafka.process import free_port
from tests.kafka.zookeeper import zookeeper
from tests.support.waiting import until
from tests.wire.servers import OdradekServer

HOST = "127.0.0.1"
PASSWORD = "hunter2 é"


def run(*arguments: str, stdin: str = "") -> Result:
    result = CliRunner().invoke(main, ["users", *arguments], input=stdin.encode())
    assert "hunter2" not in result.output
    return result


def done(*arguments: str, stdin: str = "") -> str:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str, stdin: str = "") -> str:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code in (1, 2)
    return result.output


@pytest.fixture
def there(tmp_path: Path) -> tuple[str, str]:
    """The option that names a directory in which no broker has run."""
    return "--data-dir", str(tmp_path / "new" / "data")


def listed(there: tuple[str, ...]) -> list[tuple[str, str, int]]:
    users = json.loads(done("list", "--json", *there))
    return [(user["user"], user["mechanism"], user["iterations"]) for user in users]


@pytest.mark.slow
def test_adding_listing_and_deleting(there: tuple[str, str]) -> None:
    said = done("add", "alice", *there, "--password-file", "-", stdin=f"{PASSWORD}\n")
    assert said == "user alice: set SCRAM-SHA-512\n"
    done("add", "alice", *there, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=x]")
    done("add", "b%c/ö", *there, "--password-file", "-", "--iterations", "5000", stdin="y")
    everything = [
        ("alice", "SCRAM-SHA-256", 8192),
        ("alice", "SCRAM-SHA-512", 4096),
        ("b%c/ö", "SCRAM-SHA-512", 5000),
    ]
    assert listed(there) == everything
    lines = done("list", "alice", *there).splitlines()
    assert [line.split() for line in lines] == [
        ["USER", "MECHANISM", "ITERATIONS"],
        ["alice", "SCRAM-SHA-256", "8192"],
        ["alice", "SCRAM-SHA-512", "4096"],
    ]
    assert "there is no user 'bob'" in refused("list", "alice", "bob", *there)
    missing = refused("delete", "b%c/ö", "--mechanism", "SCRAM-SHA-256", *there)
    assert "there is no user 'b%c/ö' with SCRAM-SHA-256" in missing
    assert done("delete", "alice", "--mechanism", "SCRAM-SHA-512", *there).endswith("SHA-512\n")
    assert listed(there) == [everything[0], everything[2]]
    done("delete", "alice", "b%c/ö", "bob", "--if-exists", *there)
    assert listed(there) == []
    assert "there is no user 'alice'" in refused("delete", "alice", *there)


@pytest.mark.slow
def test_what_is_stored(there: tuple[str, str]) -> None:
    """It is what the password gives, and the password is not there."""
    arguments = ("--mechanism", "SCRAM-SHA-256", "--password-file", "-")
    done("add", "alice", *there, *arguments, stdin=PASSWORD)
    store = Path(there[1]) / STORE_FILE
    journal = SqliteJournal(store)
    nodes = dict(journal.open().nodes)
    journal.close()
    text = decode_config(nodes["/config/users/alice"].data)["SCRAM-SHA-256"]
    found = decode_credential(text, SHA_256.size_bytes)
    assert re.fullmatch(rb"[0-9a-z]{15,26}", found.salt), "as that of users that do not exist"
    salted = salted_password(SHA_256, PASSWORD, salt=found.salt, iterations=4096)
    assert found == credential(SHA_256, salted, salt=found.salt, iterations=4096)
    assert b"hunter2" not in store.read_bytes()
    assert nodes["/config/changes/config_change_0000000000"].data == (
        b'{"version":2,"entity_path":"users/alice"}'
    )


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        ([], PASSWORD, "there is no terminal to ask for the password of alice: give --password-"),
        (["--password-file", "-"], "", "standard input must have one line, the password, and has"),
        (["--password-file", "-"], "\n", "standard input must have one line"),
        (["--password-file", "-"], f"{PASSWORD}\nx", "must have one line, the password, and has 2"),
        (["--password-file", "no/file"], "", "no/file can't be read: No such file or directory"),
        (["--add-config", "SCRAM-SHA-1=[password=hunter2]"], "", "--add-config is not like SCRAM-"),
        (["--add-config", "password=hunter2"], "", "--add-config is not like SCRAM-SHA-512=["),
        (
            ["--add-config", "SCRAM-SHA-256=[iterations=1,password=hunter2]"],
            "",
            "iterations must be from 4096 to 16384",
        ),
        (
            ["--add-config", "SCRAM-SHA-256=[password=hunter2]", "--password-file", "-"],
            PASSWORD,
            "--add-config says mechanism and password already",
        ),
        (["--iterations", "4095"], PASSWORD, "4095 is not in the range 4096<=x<=16384"),
        (["--zookeeper", "h:1"], PASSWORD, "--data-dir and --zookeeper exclude each other"),
        (["-b", "h:1"], PASSWORD, "--data-dir and --bootstrap-server exclude each other"),
    ],
)
def test_what_is_refused_creates_nothing(
    there: tuple[str, str], arguments: list[str], stdin: str, said: str
) -> None:
    assert said in refused("add", "alice", *there, *arguments, stdin=stdin)
    assert not Path(there[1]).exists()


def test_directories_that_are_no_place_for_users(tmp_path: Path) -> None:
    of_kafka, other = tmp_path / "kafka", tmp_path / "other"
    for directory, name in ((of_kafka, "meta.properties"), (other, "thesis.txt")):
        directory.mkdir()
        (directory / name).touch()
    for directory, said in (
        (of_kafka, "has no store of its own: it is in ZooKeeper, see --zookeeper"),
        (other, "is neither empty nor the data directory of a broker"),
        (other / "thesis.txt", "is no directory for a broker: Not a directory"),
    ):
        add = ("add", "alice", "--data-dir", str(directory), "--password-file", "-")
        assert said in refused(*add, stdin=PASSWORD)
    missing = tmp_path / "missing"
    assert "there is no store of Odradek in" in refused("list", "--data-dir", str(missing))
    assert not missing.exists()


@pytest.mark.slow
def test_zookeeper_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.connection.timeout.ms=50\nlisteners=nonsense\n")
    nobody = ("--zookeeper", f"{HOST}:{free_port()}", "--zookeeper-config", str(file))
    assert "ZooKeeper" in refused("list", *nobody)
    file.write_text("zookeeper.set.acl=true\n")
    assert "zookeeper.set.acl=true needs somebody whom ZooKeeper knows" in refused("list", *nobody)
    assert "--zookeeper-config goes with --zookeeper" in refused(
        "list", "--zookeeper-config", str(file)
    )


@pytest.mark.java
def test_users_that_only_brokers_may_read(tmp_path: Path) -> None:
    """With zookeeper.set.acl, as brokers do it."""
    file = tmp_path / "server.properties"
    settings = {
        "zookeeper.set.acl": "true",
        "odradek.zookeeper.auth.username": "broker",
        "odradek.zookeeper.auth.password": "hunter2",
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with zookeeper(directory=tmp_path / "zookeeper") as server:
        stranger = ("--zookeeper", f"{server.address}/kafka")
        broker = (*stranger, "--zookeeper-config", str(file))
        done("add", "alice", *broker, "--password-file", "-", stdin=PASSWORD)
        assert listed(broker) == [("alice", "SCRAM-SHA-512", 4096)]
        assert "Error: " in refused("list", *stranger)
        assert "Error: " in refused("delete", "alice", *stranger)
        assert "Error: " in refused("add", "eve", *stranger, "--password-file", "-", stdin="x")
        assert listed(broker) == [("alice", "SCRAM-SHA-512", 4096)]


def test_secrets_have_no_representation() -> None:
    assert "hunter2" not in repr(Secret("SCRAM-SHA-256", 4096, b"salt", "hunter2"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[OdradekServer, str]]:
    """A broker that has not started yet, and the properties of alice."""
    port = free_port()
    broker = OdradekServer(tmp_path)
    broker.settings |= {
        "listeners": f"PLAINTEXT://{HOST}:{broker.port},SASL_PLAINTEXT://{HOST}:{port}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    }
    file = tmp_path / "alice.properties"
    file.write_text(
        f"bootstrap.servers={HOST}:{port}\nsecurity.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\n"
        f"sasl.password={PASSWORD}\n",
        encoding="utf-8",
    )
    try:
        yield broker, str(file)
    finally:
        broker.close()


@pytest.mark.wire
def test_a_broker_starts_with_the_users_that_are_there(server: tuple[OdradekServer, str]) -> None:
    broker, alice = server
    there = ("--data-dir", str(broker.data_dir))
    done("add", "alice", *there, "--password-file", "-", stdin=PASSWORD)
    broker.start()
    login = ["topics", "list", "-F", alice, "-X", "socket.connection.setup.timeout.ms=30000"]
    assert CliRunner().invoke(main, login).exit_code == 0
    assert "is locked by another broker" in refused("list", *there)
    running = ("-b", broker.bootstrap_servers)
    done("add", "bob", *running, "--password-file", "-", stdin=PASSWORD)
    assert [user for user, *_ in listed(running)] == ["alice", "bob"]
    done("delete", "alice", *running)
    until(lambda: "refuses the login" in CliRunner().invoke(main, login).output)
    broker.stop()
    assert [user for user, *_ in listed(there)] == ["bob"]
    assert stat.S_IMODE((broker.data_dir / STORE_FILE).stat().st_mode) == 0o600

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.broker.config import Config, ConfigError, Given, load_config
from odradek.broker.core.groups.settings import GroupSettings

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


def test_defaults() -> None:
    config = Config()
    assert config.log_segment_bytes == config["log.segment.bytes"] == 1 << 30
    assert config.log_roll_ms is None
    assert config.auto_create_topics_enable is True
    assert config.data_dir == "odradek-data"
    assert config.warnings == ()


def test_only_what_has_an_effect_can_be_asked_for() -> None:
    for name in ("log.preallocate", "nonsense"):
        with pytest.raises(KeyError):
            Config()[name]


def test_sources_in_rising_order(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nbroker.id = 2\nlog.segment.bytes: 2000\nlog.dirs=/x y \n")
    environ = {
        "ODRADEK_NUM_PARTITIONS": "3",
        "ODRADEK_BROKER_ID": "3",
        "PATH": "/bin",
        "NUM_PARTITIONS": "9",
    }
    config = load_config(file=str(file), environ=environ, overrides={"num.partitions": "4"})
    assert config.num_partitions == 4
    assert config.broker_id == 3
    assert config.log_segment_bytes == 2000
    assert config.data_dir == "/x y"
    assert config.log_roll_hours == 168
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("variable", "attribute"),
    [
        ("ODRADEK_FLUSH_BYTES", "odradek_flush_bytes"),
        ("ODRADEK_LOG_SEGMENT_BYTES", "log_segment_bytes"),
        ("ODRADEK_FETCH_MAX_BYTES", "fetch_max_bytes"),
    ],
)
def test_environment(variable: str, attribute: str) -> None:
    assert getattr(load_config(environ={variable: "12345"}), attribute) == 12345


def test_environment_of_others() -> None:
    config = load_config(
        environ={
            "ODRADEK_REQUIRE": "all",
            "ODRADEK_ZOOKEEPER_JARS": "/usr/share/java",
            "ODRADEK_ZOOKEEPER_CLIENTCNXNSOCKET": "x",
            "ODRADEK_LOG_SEGMENT_BITES": "5",
        }
    )
    assert config.warnings == (
        "setting zookeeper.clientCnxnSocket=x has no effect in Odradek",
        "unknown setting log.segment.bites is ignored: did you mean log.segment.bytes?",
    )


def test_bad_values_name_their_source(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.segment.bytes=13\n")
    with pytest.raises(ConfigError) as error:
        load_config(file=str(file))
    assert str(error.value) == (
        f"log.segment.bytes=13 (in {file}) is not allowed: "
        "it must be a whole number of 32 bits, at least 14"
    )
    with pytest.raises(ConfigError, match="environment variable ODRADEK_NUM_PARTITIONS"):
        load_config(environ={"ODRADEK_NUM_PARTITIONS": "none"})
    with pytest.raises(ConfigError, match=r"^num\.partitions=0 is not allowed"):
        load_config(overrides={"num.partitions": "0"})


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere: No such file"):
        load_config(file=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_encodings_of_a_file(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "p"
    file.write_bytes("log.dir=/dätä".encode(encoding))
    assert load_config(file=str(file)).data_dir == "/dätä"


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"log.dirs": "/a,,/b"}, "log.dirs=/a,,/b names no directory"),
        ({"log.dir": ","}, "log.dir=, names no directory"),
        ({"log.dirs": ""}, "log.dirs= names no directory"),
        ({"compression.gzip.level": "0"}, "from 1 to 9, or -1"),
        ({"compression.type": "fast"}, "one of uncompressed, zstd"),
        ({"log.message.downconversion.enable": "true"}, "only false is"),
        ({"queued.max.request.bytes": "1000"}, "socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "lets nobody in"),
        ({"socket.send.buffer.bytes": "0"}, "-1 or a positive"),
        ({"broker.id": "-2"}, "at least -1"),
        ({"broker.id": "-1", "broker.id.generation.enable": "false"}, "at least 0"),
        ({"broker.id": "1001"}, "reserved.broker.max.id=1000"),
        ({"inter.broker.protocol.version": "2.8"}, "it must be 3.9 or 3.9-IV0"),
        ({"security.inter.broker.protocol": "SASL_SSL"}, "SASL_SSL is not in advertised.listeners"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "classic, or classic,consumer"),
        ({"group.consumer.assignors": "uniform,org.apache.Mine"}, "a list of uniform and range"),
        ({"group.consumer.assignors": ""}, "a list of uniform and range"),
        ({"group.consumer.migration.policy": "sometimes"}, "one of disabled"),
        ({"group.consumer.session.timeout.ms": "44999"}, "must not be above"),
        ({"group.consumer.max.heartbeat.interval.ms": "4999"}, "must not be above"),
        ({"authorizer.class.name": "com.example.Own"}, "other classes can't be loaded"),
        ({"authorizer.class.name": AUTHORIZER, "super.users": "admin"}, "such as User:alice"),
        ({"authorizer.class.name": AUTHORIZER, "super.users": "User:a;"}, "such as User:alice"),
        ({"authorizer.class.name": AUTHORIZER, "odradek.acls.ignore": "true"}, "not go with"),
        ({"super.users": "User:admin"}, "super.users has no effect without authorizer.class.name"),
        ({"allow.everyone.if.no.acl.found": "true"}, "has no effect without authorizer.class.name"),
        ({"create.topic.policy.class.name": "x.Y"}, "without that rule"),
        ({"client.quota.callback.class": "x.Y"}, "clients would have other quotas"),
        ({"principal.builder.class": "x.Y"}, "clients would have other names"),
        ({"listener.name.in.principal.builder.class": "x.Y"}, "clients would have other names"),
        ({"listener.name.in.ssl.engine.factory.class": "x.Y"}, "whom this class refuses"),
        (
            {
                "connections.max.idle.ms": "5000",
                "connection.failed.authentication.delay.ms": "5000",
            },
            "must be below connections.max.idle.ms=5000",
        ),
        ({"log.retention.hours": "many"}, "log.retention.hours=many"),
    ],
)
def test_what_cannot_be_used(settings: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config(settings)
    assert word in str(error.value)


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
@pytest.mark.parametrize(
    ("name", "of_kafka"),
    [
        ("principal.builder.class", "authenticator.DefaultKafkaPrincipalBuilder"),
        ("ssl.engine.factory.class", "ssl.DefaultSslEngineFactory"),
    ],
)
def test_the_classes_of_kafka_itself_are_no_others(prefix: str, name: str, of_kafka: str) -> None:
    config = Config({prefix + name: f"org.apache.kafka.common.security.{of_kafka}"})
    assert config.warnings == ()


def test_a_class_that_no_listener_can_have_of_its_own() -> None:
    name = "listener.name.plaintext.client.quota.callback.class"
    (warning,) = Config({name: "x.Y"}).warnings
    assert warning.startswith(f"setting {name} has no effect")


def test_no_limit_of_request_memory() -> None:
    assert Config({"queued.max.request.bytes": "-1"}).queued_max_request_bytes == -1


def test_what_has_no_effect_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    config = Config(
        {
            "log.preallocate": "true",
            "num.io.threads": "8",
            "num.network.threads": "5",
            "sasl.kerberos.kinit.cmd": "",
            "sasl.jaas.config": "hunter2",
            "ssl.key.password": "hunter2",
            "listener.name.internal.ssl.key.password": "hunter2",
            "listener.name.plaintext.ssl.key.password": "hunter2",
            "listener.name.internal.num.network.threads": "5",
            "listener.name.Internal.ssl.client.auth": "required",
            "log.segement.byts": "5",
            "my.own.thing": "hunter2",
            "authorizer.class.name": "",
        }
    )
    assert config.warnings == (
        "setting log.preallocate=true has no effect yet",
        "setting num.network.threads=5 has no effect in Odradek",
        "setting sasl.kerberos.kinit.cmd= has no effect yet",
        "setting listener.name.internal.num.network.threads has no effect yet: "
        "a single listener has only those of TLS and SASL, and limits",
        "setting listener.name.Internal.ssl.client.auth has no effect: "
        "it must be in small letters, listener.name.internal.ssl.client.auth",
        "unknown setting log.segement.byts is ignored: did you mean log.segment.bytes?",
        "unknown setting my.own.thing is ignored",
        "setting listener.name.internal.ssl.key.password has no effect: "
        "INTERNAL is not a listener with SSL",
        "setting listener.name.plaintext.ssl.key.password has no effect: "
        "PLAINTEXT is not a listener with SSL",
    )
    with caplog.at_level(logging.WARNING):
        config.log_warnings()
    assert len(caplog.records) == 9
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SSL"])
def test_rules_for_subjects_of_certificates_have_no_effect_on_who_logs_in(protocol: str) -> None:
    rules, of_one = "ssl.principal.mapping.rules", "listener.name.in.ssl.principal.mapping.rules"
    config = Config(
        {
            "listeners": "IN://127.0.0.1:0",
            "listener.security.protocol.map": f"IN:{protocol}",
            rules: "DEFAULT",
            of_one: "DEFAULT",
        }
    )
    expected = {
        f"setting {rules} has no effect: clients of listeners with SASL are named by their logins",
        f"setting {of_one} has no effect: clients of IN are named by their logins",
    }
    assert set(config.warnings) == (expected if protocol == "SASL_SSL" else set())


def test_who_logs_in_shows_a_certificate_only_if_its_listener_says_so() -> None:
    own = "listener.name.in.ssl.client.auth"
    settings = {
        "listeners": "IN://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.security.protocol.map": "IN:SASL_SSL,SSL:SSL",
        "inter.broker.listener.name": "SSL",
        "ssl.client.auth": "required",
    }
    (warning,) = Config(settings).warnings
    assert warning == (
        f"setting ssl.client.auth has no effect on IN, where clients log in: set {own} as well"
    )
    assert not Config({**settings, own: "none"}).warnings
    assert not Config({**settings, "ssl.client.auth": "none"}).warnings


def test_a_refused_login_may_have_any_delay_if_nobody_is_idle() -> None:
    delay = {"connection.failed.authentication.delay.ms": "700000"}
    config = Config({**delay, "connections.max.idle.ms": "-1"})
    assert config.connection_failed_authentication_delay_ms == 700_000
    assert Config({**delay, "connections.max.idle.ms": "700001"})


def test_brokers_of_one_process_choose_no_listener(caplog: pytest.LogCaptureFixture) -> None:
    config = Config(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
            "odradek.broker.listeners.accepted": "OTHER",
        }
    )
    with caplog.at_level(logging.WARNING):
        config.log_warnings()
        assert not caplog.messages
        config.log_warnings(shares_process=True)
    assert caplog.messages == [
        "setting odradek.broker.listeners.accepted has no effect: the brokers of one process have "
        "a private listener"
    ]


def test_kafka_s_sample_file_is_taken(tmp_path: Path) -> None:
    """The settings of Kafka's config/server.properties in ZooKeeper mode."""
    file = tmp_path / "server.properties"
    file.write_text(
        "broker.id=0\nnum.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\n"
        "socket.receive.buffer.bytes=102400\nsocket.request.max.bytes=104857600\n"
        "log.dirs=/tmp/kafka-logs\nnum.partitions=1\nnum.recovery.threads.per.data.dir=1\n"
        "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
        "transaction.state.log.min.isr=1\nlog.retention.hours=168\n"
        "log.retention.check.interval.ms=300000\nzookeeper.connect=localhost:2181\n"
        "zookeeper.connection.timeout.ms=18000\ngroup.initial.rebalance.delay.ms=0\n"
    )
    assert load_config(file=str(file)).warnings == ()


def test_given_knows_its_origin() -> None:
    with pytest.raises(ConfigError, match=r"\(from the test\)"):
        Config({"num.partitions": Given("x", "from the test")})


@pytest.mark.slow
def test_a_plain_start_does_not_load_the_names_without_effect() -> None:
    code = (
        "import sys; from odradek.broker.config import load_config\n"
        "load_config(environ={'ODRADEK_NUM_PARTITIONS': '3'}).topic_config()\n"
        "late = ('odradek.broker.settings.known', 'difflib')\n"
        "sys.exit(any(name in sys.modules for name in late))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_settings_of_groups() -> None:
    java = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    config = Config(
        {
            "group.initial.rebalance.delay.ms": "0",
            "group.max.size": "7",
            "offsets.retention.minutes": "2",
            "group.consumer.assignors": f"{java}, uniform",
            "group.consumer.migration.policy": "UPGRADE",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.segment.bytes": "1000",
        }
    )
    settings = config.group_settings
    assert settings.classic.initial_rebalance_delay_ms == 0
    assert settings.classic.group_size_max == 7
    assert settings.offsets.retention_ms == 120_000
    assert settings.consumer.assignors == ("range", "uniform")
    assert settings.consumer.migration_policy == "upgrade"
    assert config.offsets_topic_num_partitions == 4
    assert config.offsets_topic_segment_bytes == 1000
    assert config.group_coordinator_rebalance_protocols == ("classic", "consumer")
    assert Config().group_settings == GroupSettings()


@pytest.mark.parametrize(
    ("settings", "listeners"),
    [
        ({}, None),
        ({"listeners": "PLAINTEXT://localhost:1,OTHER://[::1]:2"}, None),
        ({"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://h:1"}, "://:9092"),
        ({"listeners": "PLAINTEXT://h:1,SSL://h:2"}, "PLAINTEXT://h:1 or SSL://h:2"),
        ({"listeners": "SSL://h:2", "ssl.client.auth": "required"}, None),
        ({"listeners": "SASL_PLAINTEXT://h:2"}, None),
        ({"listeners": "PLAINTEXT://h:1", "authorizer.class.name": AUTHORIZER}, None),
        (
            {
                "listeners": "PLAINTEXT://h:1",
                "authorizer.class.name": AUTHORIZER,
                "allow.everyone.if.no.acl.found": "true",
            },
            "PLAINTEXT://h:1 can do everything with what no ACL is about",
        ),
    ],
)
def test_a_listener_that_lets_in_everyone_is_warned_about(
    settings: dict[str, str], listeners: str | None
) -> None:
    if "OTHER" in settings.get("listeners", ""):
        settings = {**settings, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:SSL"}
    warnings = [line for line in Config(settings).warnings if line.startswith("everyone who")]
    assert len(warnings) == (listeners is not None)
    assert (listeners or "") in "".join(warnings)

"""Several brokers in one process: what each of them is given, and when none is started."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from odradek.broker.config import Config, ConfigError, load_config
from odradek.broker.local_cluster import Load, LocalCluster, cluster_configs
from odradek.broker.runtime import Runtime
from odradek.broker.server import StartupError


def load_of(**settings: str) -> Load:
    given = {name.replace("_", "."): value for name, value in settings.items()}

    def load(own: Mapping[str, str]) -> Config:
        return load_config(overrides={**given, **own})

    return load


def test_numbers_and_ports_count_up() -> None:
    load = load_of(broker_id="4", listeners="PLAINTEXT://h:9092")
    configs = cluster_configs("d", 2, load)
    assert [config["broker.id"] for config in configs] == ["4", "5"]
    assert [config["log.dirs"] for config in configs] == ["d/broker-4", "d/broker-5"]
    listeners = [config["listeners"] for config in configs]
    assert listeners == ["PLAINTEXT://h:9092", "PLAINTEXT://h:9093"]


@pytest.mark.parametrize(
    ("listeners", "message"),
    [
        ("PLAINTEXT://h:65534", "end at 65535: give a lower one"),
        ("PLAINTEXT://h:9092,SECOND://h:9094", "meet: leave room between them"),
    ],
)
def test_ports_that_do_not_count_up_are_refused(listeners: str, message: str) -> None:
    load = load_of(
        listeners=listeners,
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT",
    )
    assert len(cluster_configs("d", 2, load)) == 2
    with pytest.raises(ConfigError, match=message):
        cluster_configs("d", 3, load)


def test_no_place_for_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cluster = LocalCluster(str(tmp_path / "file"), 2, load_of(), Runtime.system())
    with pytest.raises(StartupError, match=r"no directory .*/file: File exists"):
        asyncio.run(cluster.start())


def test_one_unsound_configuration_starts_none(tmp_path: Path) -> None:
    load = load_of(broker_id="999", listeners="PLAINTEXT://127.0.0.1:0")
    with pytest.raises(ConfigError, match="1001 must not be above"):
        LocalCluster(str(tmp_path / "new"), 3, load, Runtime.system())
    assert not (tmp_path / "new").exists()

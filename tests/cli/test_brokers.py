"""What the commands need of kafka-python: its connections are not for others to use."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from packaging.requirements import Requirement
from packaging.version import Version

from odradek.cli.brokers import BrokerHungUp, Brokers
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.testing import Broker

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("extra", ["cli", "spark", "test"])
def test_the_extra_takes_what_is_tested_and_nothing_newer(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [Requirement(line) for line in project["optional-dependencies"][extra]]
    (taken,) = [one.specifier for one in asked if one.name == "kafka-python"]
    tested = Version(version("kafka-python"))
    assert tested in taken
    assert f"{tested.major}.{tested.minor}.99" in taken
    assert f"{tested.major}.{tested.minor + 1}.0" not in taken
    assert "3.0.9" not in taken, "its create_partitions asks for an assignment of no replicas"


@pytest.mark.wire
def test_a_broker_that_has_just_gone_is_not_there_however_often_it_is_asked() -> None:
    """kafka-python pauses after a connection that failed, and then says only the broker's id."""
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    with Broker(brokers=2) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap_servers)
        try:
            brokers = Brokers(admin)
            assert {node.node_id for node in brokers.nodes()} == {0, 1}
            running.kill(1)
            for _ in range(3):
                with pytest.raises(BrokerHungUp):
                    brokers.ask(request, ApiVersionsResponse, node_id=1)
        finally:
            admin.close()
